#!/usr/bin/env python3
"""Cost of rules and audit log: calls through the gateway, compared with the gateway without them.

    BENCH_BIN=target/yardstick/release python3 bench/guard-cost.py \\
        --program target/bench-fat/hospes-bench-gateway [--program old=/tmp/old/hospes-bench-gateway]

Needs `load` of bench/yardstick and the programs of bench/, built with the profile `bench-fat`. All gateways run during
the whole measurement. Each round calls each of them once, in random order. Ratios are computed within a round and
printed as medians, with the quartiles in brackets. With one connection everything runs on CPU 0. With 16, the gateway
has CPU 0, and the generator and the server have CPU 1.
"""

import argparse, json, os, random, shutil, signal, socket, statistics, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.environ.get("BENCH_BIN", f"{HERE}/../target/yardstick/release")
VARIANTS = ["bare", "rules", "reads", "guarded"]
PLAN = {"c1, one CPU": (1, "0", "0"), "c16": (16, "0", "1")}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(command, port, env=None):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
    until = time.time() + 20
    while time.time() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return process
        except OSError:
            time.sleep(0.05)
    sys.exit(f"did not start: {' '.join(command)}")


def pin(pid, cpu):
    subprocess.run(["taskset", "-acp", cpu, str(pid)], stdout=subprocess.DEVNULL, check=True)


def load(port, pid, conns, secs, cpu):
    command = ["taskset", "-c", cpu, f"{BIN}/load", "http", "--url", f"http://127.0.0.1:{port}/mcp", "--pid", str(pid),
               "--op", "echo", "--conns", str(conns), "--secs", str(secs), "--warm", "0.3", "--prefix", "b__"]
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout.decode().splitlines()[-1])
    if found.get("errors"):
        sys.exit(f"wrong answers: {found}")
    return {"calls/s": found["rps"], "p50": found["us"]["p50"], "p99": found["us"]["p99"], "CPU/call": found["server"]["cpu_us_per_request"]}


def summary(ratios):
    if len(ratios) < 4:
        return f"{statistics.median(ratios):.2f}"
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.2f} [{low:.2f}-{high:.2f}]"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--program", action="append", help="the gateway, or NAME=GATEWAY to compare several")
    options.add_argument("--server", help="hospes-bench; by default beside the first gateway")
    options.add_argument("--variants", default=",".join(VARIANTS))
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--secs", type=float, default=1)
    chosen = options.parse_args()
    programs = [named.rpartition("=")[::2] for named in chosen.program or [f"{HERE}/../target/bench-fat/hospes-bench-gateway"]]
    server = chosen.server or os.path.join(os.path.dirname(programs[0][1]), "hospes-bench")
    scratch = tempfile.mkdtemp(prefix="hospes-guard-cost-")
    running, gateways, samples = [], {}, {}
    try:
        port = free_port()
        back = start([server, "http", str(port)], port)
        running.append(back)
        for name, program in programs:
            for variant in chosen.variants.split(","):
                own = free_port()
                words = [program, str(own), f"http://127.0.0.1:{port}/mcp"] + ([] if variant == "bare" else [variant])
                gateway = start(words, own, {**os.environ, "TMPDIR": scratch})
                running.append(gateway)
                gateways[(name, variant)] = (own, gateway.pid)
        for _ in range(chosen.rounds):
            for label, (conns, gateway_cpu, others) in PLAN.items():
                pin(back.pid, others)
                order = list(gateways.items())
                random.shuffle(order)
                for key, (own, pid) in order:
                    pin(pid, gateway_cpu)
                    samples.setdefault((label, *key), []).append(load(own, pid, conns, chosen.secs, others))
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
        for process in running:
            process.wait()
        shutil.rmtree(scratch, ignore_errors=True)
    base = (programs[0][0], "bare") if (programs[0][0], "bare") in gateways else next(iter(gateways))
    for label in PLAN:
        for key in gateways:
            these, those = samples[(label, *key)], samples[(label, *base)]
            figures = (f"{figure} {summary([a[figure] / b[figure] for a, b in zip(these, those)])}" for figure in these[0])
            print(f"{label:12} {' '.join(key):18} {'  '.join(figures)}", flush=True)


main()
