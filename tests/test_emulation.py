"""The plan of an emulation without privileges, and real emulations where this machine can do them."""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import networks
from weft import Link, Network
from weft.cli import main
from weft.emulation import emulate
from weft.emulation.addresses import address
from weft.emulation.agenda import Agenda
from weft.emulation.capabilities import capabilities
from weft.emulation.output import Prefixed
from weft.emulation.plan import Plan, plan_of
from weft.emulation.shaping import Shape
from weft.emulation.timeline import events_of
from weft.errors import InputError
from weft.network import bcube, both_ways, dgx1, full_mesh, spine_leaf, two_tier
from weft.simulation import Background, Conditions, Pause, Slow

MBIT = 1e6 / 8
KERNEL = tuple(map(int, platform.release().split(".")[:2])) if sys.platform == "linux" else (0, 0)
Captured = pytest.CaptureFixture[str]


# The plan


def followed(plan: Plan, source: int, destination: int) -> set[tuple[int, int]]:
    """The links that packets take when every node does what its commands say."""
    taken: set[tuple[int, int]] = set()
    waiting = [source]
    while waiting:
        node = waiting.pop()
        if node == destination:
            continue
        for hop in next_hops(plan.namespaces[node].lines, address(source), address(destination)):
            if (node, hop) not in taken:
                taken.add((node, hop))
                waiting.append(hop)
    return taken


def next_hops(lines: Sequence[str], source: str, destination: str) -> list[int]:
    order = [re.fullmatch(r"rule add from (\S+)/32 lookup (\d+) priority 1000", line) for line in lines]
    tables = [f" table {rule[2]} " for rule in order if rule and rule[1] == source]
    for table in (*tables, " src "):
        for line in lines:
            if line.startswith(f"route add {destination}/32{table}"):
                return [int(peer) for peer in re.findall(r" dev to(\d+) onlink", line)]
    raise AssertionError(f"no route from {source} to {destination} here")


def assert_routes_are_the_models(network: Network) -> None:
    plan = plan_of(network, 0.02)
    workers = range(len(network.workers))
    for source in workers:
        for destination in workers:
            if source == destination:
                continue
            route = network.route(network.workers[source], network.workers[destination])
            expected = {(network.number(link.source), network.number(link.destination)) for link in route}
            assert followed(plan, source, destination) == expected


@pytest.mark.parametrize(
    "network",
    [spine_leaf(3, 4, 3), dgx1(), full_mesh(6), bcube(3, 2), two_tier(3, 3), dgx1().with_active(["g0", "g5", "g6"])],
    ids=lambda network: network.name,
)
def test_packets_take_the_routes_of_the_model(network: Network) -> None:
    assert_routes_are_the_models(network)


@settings(max_examples=30, deadline=None)
@given(networks)
def test_packets_take_the_routes_of_any_network(network: Network) -> None:
    assert_routes_are_the_models(network)


def test_sources_that_agree_need_no_rules() -> None:
    lines = [line for x in plan_of(two_tier(4, 4), 0.02).namespaces for line in x.lines]
    assert not [line for line in lines if line.startswith("rule")]


def test_no_node_needs_a_rule_for_packets_of_its_own() -> None:
    """The kernel looks for a route before a packet has a source address, and rules do not match then."""
    plan = plan_of(bcube(3, 2), 0.02)
    rules = [(line, x.address) for x in plan.namespaces for line in x.lines if line.startswith("rule")]
    assert rules
    assert not [line for line, own in rules if f"from {own}/32" in line]


def test_a_plan_survives_being_written_down() -> None:
    plan = plan_of(spine_leaf(2, 2, 2), 0.02)
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_a_link_of_one_direction_is_shaped_in_that_direction_alone() -> None:
    links = (Link("a", "b", 50e6), Link("b", "c", 40e6), Link("c", "a", 30e6))
    plan = plan_of(Network(("a", "b", "c"), links), 0.02)
    assert [[(x.device, x.rate) for x in node.shapes] for node in plan.namespaces] == [
        [("to1", 50e6)],
        [("to2", 40e6)],
        [("to0", 30e6)],
    ]
    assert plan.cables == ((0, 1), (0, 2), (1, 2))


def test_networks_that_are_too_large_for_a_machine_are_refused() -> None:
    with pytest.raises(InputError, match="4950 cables: at most"):
        plan_of(full_mesh(100), 0.02)


def test_background_between_switches_gets_routes() -> None:
    network = two_tier(2, 2)
    first, second = network.number("tor-a"), network.number("tor-b")
    plan = plan_of(network, 0.02, [(first, second)])
    assert len(followed(plan, first, second)) == len(followed(plan, second, first)) == 2


def test_a_shape_is_a_rate_a_part_of_it_or_a_cut() -> None:
    shape = Shape(0, "to1", 50e6, 0.0, 1_000_000)
    assert shape.lines(delays=True) == [f"qdisc replace dev to1 root handle 1: {bucket(shape, 400_000_000)}"]
    assert bucket(shape, 100_000_000) in shape.lines(0.25, delays=False)[0]
    assert shape.lines(0.0, delays=False) == ["qdisc replace dev to1 root handle 3: blackhole"]


def test_packets_are_a_millisecond_of_the_rate_within_limits() -> None:
    sizes = [Shape(0, "to1", rate, 0.0, 1_000_000).packet for rate in (1e3, 50e6, 125e6, 12.5e9)]
    assert sizes == [1514, 50_000, 125_000, 524_280]
    lines = plan_of(star(2, 1000 * MBIT), 0.01).namespaces[0].lines
    assert any("gso_max_size 65536" in line for line in lines), "all that every kernel and ip know"


def bucket(shape: Shape, bits: int) -> str:
    return f"tbf rate {bits}bit burst {shape.burst} limit {shape.queue + shape.burst}"


def test_latency_is_left_to_netem_where_there_is_one() -> None:
    shape = Shape(0, "to1", 50e6, 150e-6, 1_000_000)
    delay, rate = shape.lines(delays=True)
    assert "netem delay 150.000us" in delay
    assert "parent 2:1" in rate
    assert len(shape.lines(delays=False)) == 1


def test_conditions_become_events_and_slowdowns_multiply() -> None:
    network = two_tier(2, 2)
    link = network.link_number("tor-a>core")
    conditions = Conditions([Slow("tor-a>core", 0.5, 1, 4), Slow("tor-a>core", 0.0, 2, 3), Pause("b0", 1, 2)])
    found = [(event.at, event.kind, event.subject, event.value) for event in events_of(conditions, network)]
    assert found == [
        (1, "rate", link, 0.5),
        (1, "pause", 2, 0.0),
        (2, "rate", link, 0.0),
        (2, "resume", 2, 0.0),
        (3, "rate", link, 0.5),
        (4, "rate", link, 1.0),
    ]


# Output and agenda


@given(st.lists(st.binary(max_size=20)))
def test_output_is_the_same_lines_behind_a_prefix(pieces: list[bytes]) -> None:
    written: list[bytes] = []
    output = Prefixed("[3] ", written.append)
    for piece in pieces:
        output.feed(piece)
    output.finish()
    whole = b"".join(pieces)
    expected = whole if not whole or whole.endswith(b"\n") else whole + b"\n"
    lines = expected.split(b"\n")[:-1]
    assert b"".join(written) == b"".join(b"[3] " + line + b"\n" for line in lines)
    assert all(piece.endswith(b"\n") for piece in written)


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    written: list[bytes] = []
    output = Prefixed("", written.append)
    for _ in range(40):
        output.feed(bytes(1 << 16))
    assert len(written) == 2


def test_an_agenda_does_what_is_due_in_order() -> None:
    agenda, done = Agenda(), []
    now = time.monotonic()
    for at, name in ((now - 1, "second"), (now - 2, "first"), (now - 1, "third"), (now + 60, "later")):
        agenda.add(at, lambda name=name: done.append(name))  # type: ignore[misc]
    agenda.act()
    assert done == ["first", "second", "third"]
    left = agenda.seconds_left
    assert left is not None
    assert 50 < left <= 60


# Bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["two_tier", "--"], "there is no command: write it behind --"),
        (["two_tier"], "there is no command: write it behind --"),
        (["two_tier", "--", "no-such-program"], "there is no command 'no-such-program'"),
        (["missing.yaml", "--", "true"], "missing.yaml"),
        (["--", "true"], "there is no network"),
        (["full_mesh:workers=100", "--", "true"], "4950 cables"),
        (["two_tier", "--slow", "a0>b0*0.5", "--", "true"], "there is no link 'a0>b0'"),
        (["two_tier", "--pause", "core", "--", "true"], "only a worker can pause"),
        (["two_tier", "--background", "a0>nobody", "--", "true"], "there is no node 'nobody'"),
        (["two_tier", "--grace", "soon", "--", "true"], "'soon' is not a time"),
        (["two_tier", "--json", "--", "true"], "--json goes with --check"),
    ],
)
def test_bad_input_is_one_clear_line_and_code_2(capsys: Captured, arguments: list[str], message: str) -> None:
    assert main(["emulate", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("weft emulate: error: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err


# Real emulations


@pytest.fixture(scope="session")
def _able() -> None:
    found = capabilities()
    if not found.can_emulate:
        missing = ", ".join(item.name for item in found.items if item.needed and not item.present)
        pytest.skip(f"this machine cannot emulate: it lacks {missing}")


real = pytest.mark.usefixtures("_able")


def star(workers: int = 2, rate: float = 80 * MBIT) -> Network:
    names = tuple(f"w{i}" for i in range(workers))
    return Network(names, both_ways(Link(name, "s", rate) for name in names), ("s",), (), name="star")


def python(program: str) -> list[str]:
    return [sys.executable, "-c", SHARED + textwrap.dedent(program)]


# What workers of these tests have in common: their peers' addresses, and connections that wait for the other side.
SHARED = """
import json, os, signal, socket, sys, time
rank = int(os.environ["RANK"])
def at(node): return f"10.77.0.{node + 1}"
def taken(node, port=5000):
    with socket.create_server((at(node), port)) as listener:
        return listener.accept()[0]
def made(node, port=5000):
    while True:
        try:
            return socket.create_connection((at(node), port), timeout=120)
        except ConnectionRefusedError:
            time.sleep(0.01)
def received(connection, nbytes):
    # Bytes per second, from the first that arrive to the last.
    nbytes -= len(connection.recv(1))
    begun, left = time.monotonic(), nbytes
    while left:
        left -= len(connection.recv(min(left, 1 << 16)))
    return nbytes / (time.monotonic() - begun)
"""

TRANSFER = """
if rank == 0:
    connection = taken(0)
    rate = received(connection, 3_000_000)
    print(json.dumps(rate))
elif rank == 1:
    connection = made(0)
    connection.sendall(bytes(3_000_000))
    connection.recv(1)
"""


def run_json(capfd: Captured, network: Network, program: str, conditions: Conditions | None = None) -> Any:
    """What rank 0 printed."""
    assert emulate(network, python(program), conditions) == 0
    return json.loads(capfd.readouterr().out)


def rate_of(
    capfd: Captured, network: Network, enough: float, conditions: Conditions | None = None, program: str = TRANSFER
) -> float:
    """The rate of a transfer, in bytes per second; the best of up to four, because this machine may be busy."""
    best = 0.0
    for _ in range(4):
        best = max(best, run_json(capfd, network, program, conditions))
        if best > enough:
            break
    return best


@real
def test_every_active_worker_runs_the_command_with_its_rank(capfd: Captured) -> None:
    network = star(4).with_active(["w0", "w2", "w3"])
    names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"]
    names += ["MASTER_ADDR", "MASTER_PORT", "GLOO_SOCKET_IFNAME", "WEFT_WORKER"]
    program = f"""
    text = json.dumps([os.environ[name] for name in {names}] + [open(os.environ["WEFT_NETWORK"]).read()])
    print(text, file=sys.stdout if rank == 0 else sys.stderr)
    """
    assert emulate(network, python(program)) == 0
    captured = capfd.readouterr()
    lines = {0: captured.out, **{int(line[1]): line[4:] for line in captured.err.splitlines()}}
    for rank, worker in enumerate(["w0", "w2", "w3"]):
        *found, text = json.loads(lines.pop(rank))
        assert found == [str(rank), "3", "0", "1", "10.77.0.1", "29500", "weft0", worker]
        assert Network.parse(text) == network
    assert not lines


@real
def test_rank_0_writes_its_own_bytes_and_all_others_lines(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    program = r"""
    raw = bytes(range(256)) * 300 + b"no end"
    if rank == 0:
        sys.stdout.buffer.write(raw)
        sys.stderr.write("error of rank 0\n")
    elif rank == 1:
        for i in range(300):
            os.write(1 + i % 2, b"half a line, ")
            os.write(1 + i % 2, b"%d\n" % i)
    else:
        sys.stdout.write("no end of line")
    """
    assert emulate(star(3), python(program)) == 0
    captured = capfdbinary.readouterr()
    assert captured.out == bytes(range(256)) * 300 + b"no end"
    lines = captured.err.decode().splitlines()
    assert [line for line in lines if line[1] == "0"] == ["[0] error of rank 0"]
    assert [line for line in lines if line[1] == "1"] == [f"[1] half a line, {i}" for i in range(300)]
    assert [line for line in lines if line[1] == "2"] == ["[2] no end of line"]


@real
def test_names_of_workers_resolve(capfd: Captured) -> None:
    program = 'print(json.dumps([socket.gethostbyname("w1"), socket.gethostbyaddr(at(1))[0]]))'
    assert run_json(capfd, star(2), "if rank == 0: " + program) == ["10.77.0.2", "w1"]


@real
def test_the_exit_code_is_that_of_the_first_failure_and_others_may_still_report(capfd: Captured) -> None:
    program = """
    if rank == 1:
        sys.exit(7)
    if rank == 2:
        time.sleep(0.5)
        sys.exit("rank 2 misses rank 1")
    time.sleep(60)
    """
    begun = time.monotonic()
    assert emulate(star(3), python(program), grace=1.5) == 7
    assert 1.5 < time.monotonic() - begun < 60
    errors = capfd.readouterr().err
    assert "rank 1 (w1) ended with exit code 7; the others have 1.5 s to end by themselves" in errors
    assert "[2] rank 2 misses rank 1" in errors


@real
def test_a_killed_worker_is_a_failure(capfd: Captured) -> None:
    program = "os.kill(os.getpid(), signal.SIGKILL) if rank == 2 else time.sleep(60)"
    assert emulate(star(3), python(program), grace=0.1) == 128 + signal.SIGKILL
    assert "rank 2 (w2) ended with signal 9 (SIGKILL)" in capfd.readouterr().err


@real
def test_a_worker_that_will_not_end_is_killed(capfd: Captured) -> None:
    program = """
    if rank == 1:
        sys.exit(3)
    signal.signal(signal.SIGTERM, lambda *_: print("not yet", file=sys.stderr, flush=True))
    while True:
        time.sleep(1)
    """
    assert emulate(star(2), python(program), grace=0.5) == 3
    assert "[0] not yet" in capfd.readouterr().err


@real
def test_a_link_has_its_rate(capfd: Captured) -> None:
    assert 0.8 * 10e6 < rate_of(capfd, star(2, 80 * MBIT), 8e6) < 10e6


@real
@pytest.mark.skipif(KERNEL < (6, 3), reason="kernels before 6.3 have no packets of IPv4 beyond 64 KB")
def test_packets_of_a_fast_link_are_a_millisecond_long(capfd: Captured) -> None:
    program = """
    def packets():
        names, numbers = [line.split() for line in open("/proc/net/snmp") if line.startswith("Ip:")]
        return int(dict(zip(names, numbers))["OutRequests"])
    if rank == 0:
        connection = taken(0)
        before = packets()
        connection.sendall(bytes(40_000_000))
        connection.recv(1)
        print(json.dumps(40_000_000 / (packets() - before)))
    else:
        connection = made(0)
        received(connection, 40_000_000)
        connection.sendall(b"!")
    """
    fast = star(2, 1000 * MBIT)
    assert max(run_json(capfd, fast, program) for _ in range(2)) > 70_000


@real
def test_a_relay_forwards_and_the_slowest_link_decides(capfd: Captured) -> None:
    links = (Link("w0", "w2", 160 * MBIT), Link("w2", "w1", 40 * MBIT))
    chain = Network(("w0", "w1", "w2"), both_ways(links)).with_active(["w0", "w1"])
    assert 0.8 * 5e6 < rate_of(capfd, chain, 4e6) < 5e6


@real
def test_split_routes_reach_their_end(capfd: Captured) -> None:
    network = spine_leaf(2, 2, 1, 80 * MBIT)
    split = Network(network.workers, network.links, network.switches, network.regions, routing="split")
    assert run_json(capfd, split, TRANSFER) > 1e6


def grid(side: int) -> Network:
    """Workers that are joined to their neighbours and relay for the others."""
    links = []
    for row in range(side):
        for column in range(side):
            here = row * side + column
            links += [Link(f"w{here}", f"w{here + 1}", 400 * MBIT)] if column + 1 < side else []
            links += [Link(f"w{here}", f"w{here + side}", 400 * MBIT)] if row + 1 < side else []
    return Network(tuple(f"w{i}" for i in range(side * side)), both_ways(links))


@real
def test_every_link_carries_the_bytes_of_the_model(tmp_path: Path) -> None:
    network, size = grid(3), 100_000
    assert any(line.startswith("rule") for x in plan_of(network, 0.02).namespaces for line in x.lines)
    program = f"""
    from pathlib import Path
    from threading import Thread
    folder, world = Path({str(tmp_path)!r}), int(os.environ["WORLD_SIZE"])
    def meet(what):
        (folder / f"{{what}}-{{rank}}").touch()
        while len(list(folder.glob(f"{{what}}-*"))) < world:
            time.sleep(0.02)
    def take(listener):
        for _ in range(world - 1):
            connection = listener.accept()[0]
            while connection.recv(1 << 16):
                pass
            connection.close()
    listener = socket.create_server((at(rank), 5000), backlog=world)
    taking = Thread(target=take, args=(listener,))
    taking.start()
    meet("ready")
    for peer in range(world):
        if peer != rank:
            connection = made(peer)
            connection.sendall(bytes({size}))
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)
    taking.join()
    meet("done")
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    sent = {{line.split(":")[0].strip(): int(line.split(":")[1].split()[8]) for line in lines}}
    (folder / f"sent-{{rank}}").write_text(json.dumps(sent))
    """
    assert emulate(network, python(program)) == 0
    expected = dict.fromkeys(network.links, 0)
    for source in network.workers:
        for destination in network.workers:
            for link in network.route(source, destination) if source != destination else ():
                expected[link] += size
    for link, payload in expected.items():
        counters = json.loads((tmp_path / f"sent-{network.number(link.source)}").read_text())
        sent = counters[f"to{network.number(link.destination)}"]
        # Headers, acknowledgements and a few repeated packets come on top.
        assert payload <= sent < 1.15 * payload + 0.5 * size, link.name


@real
def test_flows_share_an_uplink(capfd: Captured) -> None:
    program = """
    if rank in (2, 3):
        rate = received(taken(rank), 5_000_000)
        if rank == 3:
            made(0, 6000).sendall(json.dumps(rate).encode())
        else:
            made(0, 6001).sendall(json.dumps(rate).encode())
    else:
        made(rank + 2).sendall(bytes(5_000_000))
        if rank == 0:
            print(json.dumps([float(taken(0, 6000).recv(100)), float(taken(0, 6001).recv(100))]))
    """
    first, second = run_json(capfd, two_tier(2, 2, 80 * MBIT, uplink=80 * MBIT), program)
    assert min(first, second) > 0.3 * 10e6
    assert max(first, second) < 0.8 * 10e6


@real
def test_a_slowed_link_is_slow_in_its_direction_alone(capfd: Captured) -> None:
    there = rate_of(capfd, star(), 2e6, Conditions([Slow("s>w0", 0.25)]))
    assert 0.8 * 2.5e6 < there < 2.5e6
    back = rate_of(capfd, star(), 8e6, Conditions([Slow("w0>s", 0.25)]))
    assert 0.8 * 10e6 < back < 10e6


@real
def test_a_cut_link_carries_nothing_until_it_is_back(capfd: Captured) -> None:
    program = """
    if rank == 0:
        connection = taken(0)
        connection.recv(1)
        begun = last = time.monotonic()
        longest, left = 0.0, 30_000_000
        while left:
            left -= len(connection.recv(1 << 16))
            now = time.monotonic()
            longest, last = max(longest, now - last), now
        print(json.dumps(longest))
    elif rank == 1:
        connection = made(0)
        connection.sendall(bytes(30_000_001))
        connection.recv(1)
    """
    # The transfer lasts three seconds, from when Python has started: the cut begins in the middle of it.
    gap = run_json(capfd, star(), program, Conditions([Slow("w1>s", 0.0, 1.5, 2.5)]))
    assert gap > 0.6


@real
def test_a_paused_worker_stands_still_and_the_others_do_not(capfd: Captured) -> None:
    program = """
    longest, last, end = 0.0, time.monotonic(), time.monotonic() + 3
    while last < end:
        time.sleep(0.005)
        now = time.monotonic()
        longest, last = max(longest, now - last), now
    if rank == 1:
        made(0).sendall(json.dumps(longest).encode())
    elif rank == 0:
        print(json.dumps([longest, float(taken(0).recv(100))]))
    """
    mine, paused = run_json(capfd, star(), program, Conditions([Pause("w1", 1.5, 2.0), Pause("w1", 1.7, 2.2)]))
    assert paused > 0.6
    assert mine < paused


@real
def test_background_takes_its_share(capfd: Captured) -> None:
    conditions = Conditions([Background("w2", "w0", flows=3)])
    rate = run_json(capfd, star(3), TRANSFER, conditions)
    # A fair share would be 2.5e6; connections of TCP share unevenly, from one run to the next too.
    assert 0.1e6 < rate < 0.6 * 10e6


@real
def test_background_of_some_bytes_ends(capfd: Captured) -> None:
    conditions = Conditions([Background("w2", "w0", nbytes=2_000_000, flows=2)])
    assert rate_of(capfd, star(3), 8e6, conditions, "time.sleep(1.5)\n" + TRANSFER) > 8e6


@real
@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_gloo_finds_its_way(capfd: Captured) -> None:
    program = """
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    tensor = torch.full((1000,), float(rank + 1))
    dist.all_reduce(tensor)
    if rank == 0:
        print(json.dumps(tensor[0].item()))
    dist.destroy_process_group()
    """
    assert run_json(capfd, star(3), program) == 6.0


# Whole emulators as processes


@pytest.fixture
def network_file(tmp_path: Path) -> Path:
    star(3).save(tmp_path / "star.yaml")
    return tmp_path / "star.yaml"


def emulator(file: Path, program: str, *options: str, **more: Any) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "weft", "emulate", str(file), *options, "--", *python(program)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def processes_with(marker: str) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and marker.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def namespaces_in_use() -> set[str]:
    found = set()
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal():
                found.add(str((folder / "ns" / "net").readlink()))
        except OSError:
            continue
    return found


def until(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not condition():
        time.sleep(0.02)
    return condition()


# A worker with a child of its own that has left the worker's process group.
LASTING = """
import subprocess
try:
    child = subprocess.Popen(["sleep", "77"], start_new_session=True)
    print(os.readlink("/proc/self/ns/net"), child.pid, flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    sys.exit("interrupted")
"""


@real
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_nothing_is_left_when_the_emulator_is_told_to_end(network_file: Path, number: int, code: int) -> None:
    marker = f"marker-{os.getpid()}-{number}"
    process = emulator(network_file, LASTING + f"# {marker}")
    with process:
        assert process.stdout is not None
        namespace, _ = process.stdout.readline().split()
        assert namespace in namespaces_in_use()
        assert len(processes_with(marker)) >= 3
        process.send_signal(number)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == code
    assert all(line.startswith("[") for line in errors.splitlines())
    assert ("[0] interrupted" in errors) == (number == signal.SIGINT)
    assert until(lambda: not processes_with(marker))
    assert until(lambda: namespace not in namespaces_in_use())


@real
def test_a_second_interruption_ends_at_once(network_file: Path) -> None:
    marker = f"marker-{os.getpid()}-twice"
    program = f'signal.signal(signal.SIGINT, signal.SIG_IGN); print("ready", flush=True); time.sleep(60) # {marker}'
    process = emulator(network_file, program)
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        begun = time.monotonic()
        process.communicate(timeout=120)
    assert time.monotonic() - begun < 4.5
    assert process.returncode == 130
    assert until(lambda: not processes_with(marker))


@real
def test_a_paused_worker_ends_when_it_is_told_to(network_file: Path) -> None:
    program = 'print("ready", flush=True); time.sleep(60)'
    with emulator(network_file, program, "--pause", "w1@0.5s..") as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(1)
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    assert process.returncode == 143
    assert time.monotonic() - begun < 4.5


@real
def test_two_emulations_do_not_see_each_other(network_file: Path) -> None:
    program = """
    if rank == 0:
        connection = taken(0, int(os.environ["MASTER_PORT"]))
        time.sleep(0.5)
        print(connection.recv(100).decode())
    elif rank == 1:
        made(0, int(os.environ["MASTER_PORT"])).sendall(os.environ["WHO"].encode())
        time.sleep(1)
    """
    both = [emulator(network_file, program, env=os.environ | {"WHO": who}) for who in ("one", "other")]
    assert [process.communicate(timeout=120)[0] for process in both] == ["one\n", "other\n"]
    assert [process.returncode for process in both] == [0, 0]


def _python_for_nobody() -> str | None:
    """A Python that everybody may start, and that can load what this one can."""
    for name in (sys.executable, "/usr/bin/python3", f"/usr/bin/python3.{sys.version_info.minor}"):
        words = [*NOBODY, name, "-c", "import numpy, numba, yaml"]
        if subprocess.run(words, capture_output=True, env=_plain_environment("/nowhere")).returncode == 0:
            return name
    return None


# env looks for the program after the rights are gone; setpriv itself still has them then.
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"]
NOBODY += ["--bounding-set=-all", "--", "env"]


def _plain_environment(cache: str) -> dict[str, str]:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return {"PATH": os.environ["PATH"], "PYTHONPATH": path, "NUMBA_CACHE_DIR": cache, "PYTHONDONTWRITEBYTECODE": "1"}


@real
@pytest.mark.skipif(os.geteuid() != 0, reason="we are an ordinary user already, so every test shows it")
def test_an_ordinary_user_can_emulate() -> None:
    interpreter = _python_for_nobody()
    if interpreter is None:
        pytest.skip("an ordinary user can start no Python here that has what Weft needs")
    if not {x.name: x.present for x in capabilities().items}["namespaces without root"]:
        pytest.skip("this kernel gives no user namespaces to ordinary users")
    # Not below tmp_path, which is closed to others.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        star(2).save(Path(folder, "star.yaml"))
        words = [*NOBODY, interpreter, "-m", "weft", "emulate", "star.yaml", "--", interpreter, *python(TRANSFER)[1:]]
        ran = subprocess.run(words, cwd=folder, env=_plain_environment(folder), capture_output=True, text=True)
    assert (ran.stderr, ran.returncode) == ("", 0)
    assert 0.3 * 10e6 < json.loads(ran.stdout) < 10e6


@real
def test_the_check_says_what_there_is(capsys: Captured) -> None:
    assert main(["emulate", "--check", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["can_emulate"] is True
    assert {item["name"] for item in found["items"]} >= {"ip", "tc", "namespaces without root", "tbf", "netem", "veth"}
    assert found["congestion_control"] in found["congestion_controls"]
    assert main(["emulate", "--check"]) == 0
    assert "this machine can emulate" in capsys.readouterr().out


def test_the_check_fails_where_tools_are_missing(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["emulate", "--check"]) == 1
    said = capsys.readouterr().out
    assert re.search(r"^tc +MISSING", said, re.MULTILINE)
    assert "this machine cannot emulate" in said
