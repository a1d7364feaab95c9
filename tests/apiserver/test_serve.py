"""The server on a port: start, limits, stop."""

from __future__ import annotations

import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
import yaml
from starlette.testclient import TestClient

from baro.apiserver import create_app, run_in_thread
from baro.apiserver.handling import Handler
from baro.apiserver.requests import Request
from baro.apiserver.serve import RunningServer, _listen, write_kubeconfig
from baro.apiserver.serving import BODY_LIMIT
from baro.model.errors import InputError
from tests.support.apiserver import MAPS


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with run_in_thread(create_app()) as running:
        yield running


def test_the_server_listens_on_loopback_and_answers(server: RunningServer) -> None:
    assert server.url.startswith("http://127.0.0.1:")
    answer = httpx2.get(f"{server.url}/version")
    assert answer.json()["gitVersion"].startswith("v1.37.")
    assert httpx2.get(f"{server.url}/readyz").text == "ok"
    assert httpx2.head(f"{server.url}{MAPS}").status_code == 200


def test_nothing_is_answered_by_the_framework(server: RunningServer) -> None:
    for method, path in (("GET", "/no/such"), ("OPTIONS", MAPS), ("PROPFIND", "/"), ("GET", "/%00")):
        answer = httpx2.request(method, f"{server.url}{path}")
        assert answer.json()["kind"] == "Status", (method, path)
        assert answer.json()["code"] == answer.status_code


def test_a_body_over_three_mebibytes_is_413(server: RunningServer) -> None:
    fits = {"metadata": {"name": "big"}, "message": "x" * (BODY_LIMIT - 200)}
    events = "/api/v1/namespaces/default/events"
    assert httpx2.post(f"{server.url}{events}", json=fits, timeout=30).status_code == 201
    answer = httpx2.post(f"{server.url}{MAPS}", content=b"[" * (BODY_LIMIT + 1), timeout=30)
    assert answer.status_code == 413
    assert answer.json()["reason"] == "RequestEntityTooLarge"
    assert answer.json()["message"] == "Request entity too large: limit is 3145728"


def test_warnings_are_headers(server: RunningServer) -> None:
    answer = httpx2.get(f"{server.url}/apis/resource.k8s.io/v1beta1/resourceslices")
    assert answer.headers["warning"] == (
        '299 - "resource.k8s.io/v1beta1 ResourceSlice is deprecated in v1.35+, unavailable in v1.38+"'
    )


def test_the_server_stops_with_watches_open() -> None:
    running = run_in_thread(create_app())
    ended = threading.Event()

    def watch() -> None:
        with httpx2.stream("GET", f"{running.url}{MAPS}?watch=true", timeout=60) as response:
            started.set()
            list(response.iter_lines())
        ended.set()

    started = threading.Event()
    thread = threading.Thread(target=watch)
    thread.start()
    assert started.wait(30)
    running.stop()
    thread.join(30)
    assert ended.is_set()
    running.stop()
    port = int(running.url.rpartition(":")[2])
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        pass


def test_answers_are_not_held_back_by_the_network_stack() -> None:
    listener = _listen("127.0.0.1", 0)
    try:
        assert listener.proto == socket.IPPROTO_TCP  # what makes asyncio set TCP_NODELAY
    finally:
        listener.close()


def test_a_fault_of_the_server_is_a_500_status(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_handler: Handler, _request: Request) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Handler, "answer", fail)
    client = TestClient(create_app(), raise_server_exceptions=False)
    answer = client.get(MAPS)
    assert (answer.status_code, answer.json()["reason"]) == (500, "InternalError")
    assert "ZeroDivisionError" not in answer.text


def test_a_taken_port_is_a_clear_error(server: RunningServer) -> None:
    port = int(server.url.rpartition(":")[2])
    with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1 port {port}"):
        run_in_thread(create_app(), port=port)


def test_a_kubeconfig_is_private_and_another_ones_is_left_alone(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "folder" / "config", "http://127.0.0.1:1")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    config = yaml.safe_load(path.read_text())
    assert config["clusters"][0]["cluster"]["server"] == "http://127.0.0.1:1"
    write_kubeconfig(path, "http://127.0.0.1:2")
    assert "http://127.0.0.1:2" in path.read_text()
    foreign = tmp_path / "foreign"
    foreign.write_text("apiVersion: v1\nkind: Config\n")
    with pytest.raises(InputError, match="kubeconfig of another cluster"):
        write_kubeconfig(foreign, "http://127.0.0.1:1")
    assert foreign.read_text() == "apiVersion: v1\nkind: Config\n"
