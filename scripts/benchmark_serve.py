"""Latency and throughput of `informer serve` with one client and with many concurrent ones.

    OMP_NUM_THREADS=1 python scripts/benchmark_serve.py [--checkpoint RUN] [--clients 32] [--requests 20]

Without a checkpoint a model of 180,000 parameters is trained for 20 steps on the sample. Each client keeps a connection
open and sends histories as CSV text one after the other, with an 80 % interval. Clients and server share the machine.
"""

import argparse
import http.client
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from informer.base.runtime import resource

ROWS, DISTINCT = 96, 200
"""Rows of a history, and how many different ones are sent."""


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[str, int, int]]:
    """Run a service; yields its host, its port and the id of its process when it is ready."""
    command = [sys.executable, "-u", "-m", "informer", "serve", "port=0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            match = re.search(r"http://([\d.]+):(\d+)", process.stdout.readline())
            assert match, "the service did not start"
            yield match[1], int(match[2]), process.pid
        finally:
            process.terminate()


def bodies() -> list[bytes]:
    """Histories from different parts of the sample, as CSV."""
    frame = pd.read_csv(resource("data/sample.csv"))
    frames = (frame.iloc[20 * number : 20 * number + ROWS] for number in range(DISTINCT))
    return [history.to_csv(index=False).encode() for history in frames]


def measure(host: str, port: int, clients: int, requests: int) -> tuple[list[float], float]:
    """Seconds of each request, and of all requests together."""
    texts, together = bodies(), threading.Barrier(clients + 1)

    def client(number: int) -> list[float]:
        connection, seconds = http.client.HTTPConnection(host, port, timeout=600), []
        connection.connect()
        together.wait()
        for i in range(requests):
            body = texts[(number * requests + i) % DISTINCT]
            started = time.perf_counter()
            connection.request("POST", "/forecast?intervals=80", body, {"Content-Type": "text/csv"})
            answer = connection.getresponse()
            content = answer.read()
            seconds.append(time.perf_counter() - started)
            assert answer.status == 200, content
        connection.close()
        return seconds

    with ThreadPoolExecutor(clients) as threads:
        running = [threads.submit(client, number) for number in range(clients)]
        together.wait()
        started = time.perf_counter()
        latencies = [seconds for each in running for seconds in each.result()]
    return latencies, time.perf_counter() - started


def cpu_seconds(process: int) -> float:
    """Processor time of a process, which depends less on other work than the time on the clock; on Linux."""
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print a line for each number of clients and batch size."""
    parser = argparse.ArgumentParser(description="Latency and throughput of informer serve on this machine.")
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--requests", type=int, default=20)
    options = parser.parse_args()
    with TemporaryDirectory() as scratch:
        run_dir = options.checkpoint or Path(scratch) / "run"
        if options.checkpoint is None:
            small = ["dataset=sample", "model=small", "seq_len=96", "pred_len=24", "trainer.max_steps=20"]
            train = [sys.executable, "-m", "informer.train", *small, f"run_dir={run_dir}"]
            subprocess.run(train, cwd=scratch, check=True, stdout=subprocess.DEVNULL)
        print("| clients | requests/s | CPU ms per request | p50 ms | p95 ms | p99 ms |\n|---|---|---|---|---|---|")
        with serving(f"checkpoint={run_dir}") as (host, port, process):
            measure(host, port, 1, 5)  # the first forward passes allocate
            for clients in (1, options.clients):
                before = cpu_seconds(process)
                seconds, elapsed = measure(host, port, clients, options.requests)
                cost = 1000 * (cpu_seconds(process) - before) / len(seconds)
                cuts = [1000 * cut for cut in statistics.quantiles(seconds, n=100)]
                rate, (p50, p95, p99) = len(seconds) / elapsed, (cuts[49], cuts[94], cuts[98])
                print(f"| {clients} | {rate:.0f} | {cost:.1f} | {p50:.0f} | {p95:.0f} | {p99:.0f} |", flush=True)


if __name__ == "__main__":
    main()
