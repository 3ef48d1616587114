"""One job of one client: `python -m benchmarks.rivals.clients CLIENT JOB`. The last line it prints is the outcome."""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time
from dataclasses import asdict, replace

from benchmarks.rivals.clients import ClientJob, ClientMeasured

client, asked = sys.argv[1], ClientJob(**json.loads(sys.argv[2]))
started = time.perf_counter()
module = importlib.import_module(f"benchmarks.rivals.clients.{client}")
import_s = time.perf_counter() - started
done: ClientMeasured = getattr(module, asked.kind)(asked)
usage = resource.getrusage(resource.RUSAGE_SELF)
done = replace(done, memory_bytes=usage.ru_maxrss * 1024, import_s=import_s, cpu_s=usage.ru_utime + usage.ru_stime)
print(json.dumps(asdict(done)))
