# What shells make of the texts of a file, which is the argument: as the argument of `cat`, and as a whole command.
import os
import subprocess
import sys

from places import Places, offline

places = Places(sys.argv[1], listens=False)
ENVIRONMENT = {"HOME": places.home, "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
# What a shell would do something with; other texts are one word to it.
LIVE = set(" \t\n$`\\\"'*?[]{}~;|&<>()!#=%")


def run(arguments, folder):
    try:
        done = subprocess.run(
            arguments, cwd=folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=5, check=False,
        )
    except (OSError, ValueError):
        return
    places.look(done.stdout)


def shell(name, command, folder):
    @offline
    def reader(text):
        if LIVE.intersection(text):
            run([name, "-c", command.format(text)], folder)

    return reader


@offline
def alone(text):
    run(["cat", "--", text], places.home)


readers = {"cat": alone}
for name in ("sh", "bash"):
    readers[f"{name} -c cat TEXT"] = shell(name, "cat {}", places.home)
    readers[f"{name} -c TEXT"] = shell(name, "{}", places.home)
readers["sh -c cat TEXT, from the root"] = shell("sh", "cat {}", "/")
places.each(readers)
