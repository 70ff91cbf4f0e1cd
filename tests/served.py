"""A service in a separate process, and clients for it."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from entry_points import ROOT

CSV, JSON = "text/csv", "application/json"


class Reply(NamedTuple):
    """An answer: status, headers in lower case, body."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        assert set(self.json) == {"error"}
        return self.json["error"]


class Served(NamedTuple):
    """A running service."""

    host: str
    port: int
    process: subprocess.Popen[str]

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """One request on a new connection; keywords such as content_type are headers."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=600)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def csv(self, text: str, query: str = "", **headers: str) -> Reply:
        return self.ask("POST", f"/forecast{query}", text.encode(), **{"content_type": CSV, **headers})

    def table(self, query: str = "", **tables: Any) -> Reply:
        """Tables as JSON: frame=, future=."""
        return self.ask("POST", f"/forecast{query}", json.dumps(tables), content_type=JSON)


@contextmanager
def serving(*arguments: str) -> Iterator[Served]:
    """`informer serve port=0 <arguments>`, ready for requests; afterwards it must end by itself at SIGTERM."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "informer", "serve", "port=0", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            match = re.search(r"http://([\d.]+):(\d+)", line)
            assert match, f"{line}{process.stderr.read() if process.stderr else ''}"
            yield Served(match[1], int(match[2]), process)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=120)
            assert (process.returncode, out) == (0, "stopped\n"), err
            lines = [json.loads(each) for each in err.splitlines()]
            warnings = [each["message"] for each in lines if each["level"] != "info"]
            assert len(set(warnings)) == len(warnings), "each warning once"
            assert all("intervals " in line or "not read again" in line for line in warnings), err
        finally:
            process.kill()
