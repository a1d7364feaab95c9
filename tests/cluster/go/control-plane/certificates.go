package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// lifetime of every certificate: one run of a test suite, with room for a demo that is left open.
const lifetime = 7 * 24 * time.Hour

// authority signs the certificates of one run.
type authority struct {
	dir         string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// writeCertificates writes ca.crt, a serving pair apiserver.{crt,key} for loopback, the key pair
// service-account.{key,pub} and one client pair NAME.{crt,key} for each argument `NAME=USER[:GROUP…]`.
func writeCertificates(arguments []string) error {
	flags := flag.NewFlagSet("certificates", flag.ContinueOnError)
	dir := flags.String("dir", "", "folder to write to")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *dir == "" {
		return errors.New("--dir is missing")
	}
	ca, err := newAuthority(*dir)
	if err != nil {
		return err
	}
	if err := ca.serving("apiserver"); err != nil {
		return err
	}
	for _, argument := range flags.Args() {
		name, subject, found := strings.Cut(argument, "=")
		if !found {
			return errors.New(argument + ": want NAME=USER[,GROUP…]")
		}
		if err := ca.client(name, strings.Split(subject, ",")); err != nil {
			return err
		}
	}
	return writeServiceAccountKeys(*dir)
}

func newAuthority(dir string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := template(pkix.Name{CommonName: "baro test authority"})
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	ca := &authority{dir: dir, certificate: certificate, key: key}
	if err := ca.writeKey("ca.key", key); err != nil {
		return nil, err
	}
	return ca, ca.write("ca.crt", "CERTIFICATE", der)
}

func (ca *authority) serving(name string) error {
	template := template(pkix.Name{CommonName: "kube-apiserver"})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)}
	template.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	return ca.sign(name, template)
}

func (ca *authority) client(name string, subject []string) error {
	template := template(pkix.Name{CommonName: subject[0], Organization: subject[1:]})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return ca.sign(name, template)
}

func (ca *authority) sign(name string, template *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, &key.PublicKey, ca.key)
	if err != nil {
		return err
	}
	if err := ca.writeKey(name+".key", key); err != nil {
		return err
	}
	return ca.write(name+".crt", "CERTIFICATE", der)
}

func (ca *authority) writeKey(file string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return ca.write(file, "EC PRIVATE KEY", der)
}

func (ca *authority) write(file, kind string, der []byte) error {
	return writePEM(filepath.Join(ca.dir, file), kind, der)
}

func writeServiceAccountKeys(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, "service-account.key"), "EC PRIVATE KEY", private); err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, "service-account.pub"), "PUBLIC KEY", public)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

func template(subject pkix.Name) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // the kernel has no randomness: nothing below can work
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-5 * time.Minute),
		NotAfter:     now.Add(lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
}
