"""A Spark session of two executors in processes of their own, and partitions that take their time."""

import os
import shutil
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def spark_session(master="local-cluster[2,1,1024]", **settings):
    """A session; Java must be on the PATH, or in JAVA_HOME."""
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise RuntimeError("Spark needs Java 17 or newer: apt-get install openjdk-17-jre-headless")
    import pyspark
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_HOME"] = os.path.dirname(pyspark.__file__)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    chosen = {
        "spark.driver.host": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
        "spark.local.dir": os.environ.get("TMPDIR", "/tmp"),
        **settings,
    }
    for name, value in chosen.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()


def executors():
    """Process numbers of the executors that this process started: its children's children."""
    parents, names = {}, {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, tail = status.read_text().rpartition(") ")
            command = (status.parent / "cmdline").read_text()
        except OSError:  # it has ended
            continue
        pid = int(head.split(" ")[0])
        parents[pid], names[pid] = int(tail.split(" ")[1]), command

    def ours(pid):
        while pid in parents:
            if pid == os.getpid():
                return True
            pid = parents[pid]
        return False

    return [p for p, name in names.items() if "CoarseGrainedExecutorBackend" in name and ours(p)]


class SlowPartitions:
    """For ``mapInArrow``: the same rows, slowly, with a line in a file for every partition begun."""

    def __init__(self, path, pause):
        self.path, self.pause = str(path), pause

    def __call__(self, batches):
        with open(self.path, "a", encoding="utf-8") as file:
            file.write("begun\n")
        time.sleep(self.pause)
        yield from batches


def kill_an_executor(path, lines, killed, seconds=600.0):
    """Kill an executor once a file has so many lines."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        begun = Path(path).read_text().count("\n") if Path(path).exists() else 0
        if begun >= lines:
            pid = executors()[0]
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
            return
        time.sleep(0.02)
