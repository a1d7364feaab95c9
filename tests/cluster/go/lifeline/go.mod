module baro.dev/tests/lifeline

go 1.24
