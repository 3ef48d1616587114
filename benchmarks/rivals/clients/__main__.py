"""One job of one client: `python -m benchmarks.rivals.clients CLIENT JOB`. The last line it prints is the outcome."""

from __future__ import annotations

import importlib
import json
import re
import resource
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.rivals.clients import ClientJob, ClientMeasured

client, asked = sys.argv[1], ClientJob(**json.loads(sys.argv[2]))
started = time.perf_counter()
module = importlib.import_module(f"benchmarks.rivals.clients.{client}")
import_s = time.perf_counter() - started
done: ClientMeasured = getattr(module, asked.kind)(asked)
usage = resource.getrusage(resource.RUSAGE_SELF)
# Not ru_maxrss: a process begins with the maximum of the one that started it.
most = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
assert most is not None, "Linux tells the most memory that a process has had"
memory_bytes = int(most[1]) * 1024
done = replace(done, memory_bytes=memory_bytes, import_s=import_s, cpu_s=usage.ru_utime + usage.ru_stime)
print(json.dumps(asdict(done)))
