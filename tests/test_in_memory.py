"""All workers in one process: the same results as elsewhere, each worker's own state, and simulated time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from weft.cli import main
from weft.errors import InputError
from weft.groups import Part, Round, divide_and_shuffle
from weft.network import Network, full_mesh, two_tier
from weft.planning import Plan, plan
from weft.training import Config, config_of, train
from weft.training.in_memory import MemoryTraining, memory_training
from weft.training.in_memory_job import reached, train_in_memory
from weft.training.judging import Judge, judged, renew_statistics
from weft.training.metrics import StepRecord
from weft.training.options import Optimizer
from weft.training.replicas import Replicas

IMAGES = '[data]\nname = "synthetic"\nsize = 8\nchannels = 1\ntrain = 128\ntest = 40\nclasses = 3\n'
MLP = '[model]\nname = "mlp"\nhidden = [8]\n' + IMAGES
RESIDUAL = '[model]\nname = "resnet-20"\nwidth = 2\n' + IMAGES
NETWORK = two_tier(2, 2, 1e6, uplink=1e6)
ONE = full_mesh(1)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def config(
    text: str = MLP,
    strategy: str = "bsp",
    batch: int = 8,
    epochs: int = 2,
    momentum: float = 0.9,
    extra: str = "",
    **options: Any,
) -> Config:
    words = "".join(f"{key} = {json.dumps(value)}\n" for key, value in options.items())
    training = f"[training]\nbatch = {batch}\nepochs = {epochs}\n"
    optimizer = f"[optimizer]\nlearning_rate = 0.05\nmomentum = {momentum}\n{extra}"
    return config_of(f'{text}{training}{optimizer}[strategy]\nname = "{strategy}"\n{words}', Path("x.toml"))


def run(made: Config, network: Network = NETWORK) -> tuple[MemoryTraining, list[StepRecord]]:
    training = memory_training(made, network)
    return training, list(training.records())


@pytest.mark.parametrize("extra", ["", "clip_norm = 0.3\n", "weight_decay = 0.01\n"])
def test_bsp_of_four_workers_is_one_worker_with_four_times_the_batch(extra: str) -> None:
    four, records = run(config(batch=8, extra=extra))
    one, alone = run(config(batch=32, extra=extra), ONE)
    assert [r.loss for r in records] == pytest.approx([r.loss for r in alone], rel=1e-4)
    for row in four.replicas.table.data:
        torch.testing.assert_close(row, one.replicas.table.data[0], rtol=1e-4, atol=1e-6)
    assert [r.accuracy for r in records] == [r.accuracy for r in alone]


class Nobody:
    def __init__(self) -> None:
        self.records: list[StepRecord] = []

    def note(self, text: str) -> None: ...

    def stepped(self, record: StepRecord, share: float) -> None:
        self.records.append(record)


def test_one_worker_in_memory_is_one_worker_outside_to_the_bit(tmp_path: Path) -> None:
    made = config(RESIDUAL, batch=16, epochs=1)
    made = replace(made, output=replace(made.output, folder=str(tmp_path)), plan=replace(made.plan, plan="backend"))
    outside = Nobody()
    train(made, outside)
    _, inside = run(made, ONE)
    assert [r.loss for r in inside] == [r.loss for r in outside.records]
    assert [r.learning_rate for r in inside] == [r.learning_rate for r in outside.records]


@pytest.mark.parametrize("strategy", ["bsp", "ds-sync", "gossip", "local-sgd", "asp", "ssp"])
def test_every_strategy_learns_and_is_the_same_in_every_run(strategy: str) -> None:
    made = config(strategy=strategy, epochs=6, every=2, staleness=1)
    _, first = run(made)
    _, second = run(made)
    assert first == second
    assert first[-1].accuracy is not None
    assert first[-1].accuracy > 0.6
    assert sum(r.loss for r in first[-4:]) < 0.7 * sum(r.loss for r in first[:4])


def test_ssp_with_no_staleness_and_no_momentum_is_bsp() -> None:
    # All pull the same parameters, and the servers add up a share of every gradient.
    serving, _ = run(config(strategy="ssp", staleness=0, momentum=0.0))
    bsp, _ = run(config(momentum=0.0))
    for row in serving.replicas.table.data:
        torch.testing.assert_close(row, bsp.replicas.table.data[0], rtol=1e-4, atol=1e-6)
    stale, _ = run(config(strategy="asp", momentum=0.0, speeds=[1, 1, 1, 0.25]))
    assert not torch.allclose(stale.replicas.table.data[0], bsp.replicas.table.data[0], atol=1e-4)


def test_each_worker_keeps_its_own_momentum_and_statistics_under_ds_sync() -> None:
    training, _ = run(config(RESIDUAL, "ds-sync", epochs=1))
    state = training.replicas.optimizer.state[training.replicas.table]["momentum_buffer"]
    assert not torch.equal(state[0], state[1])
    means = [next(b for n, b in m.named_buffers() if "running_mean" in n) for m in training.replicas.modules]
    assert not torch.equal(means[0], means[1])
    assert not torch.equal(training.replicas.table.data[0], training.replicas.table.data[3])
    bsp, _ = run(config(RESIDUAL, "bsp", epochs=1))
    state = bsp.replicas.optimizer.state[bsp.replicas.table]["momentum_buffer"]
    torch.testing.assert_close(state[0], state[3])
    torch.testing.assert_close(bsp.replicas.table.data[0], bsp.replicas.table.data[3])


def _replicas(count: int = 6) -> Replicas:
    torch.manual_seed(0)
    replicas = Replicas(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), range(count), Optimizer())
    with torch.no_grad():
        replicas.table.copy_(torch.randn_like(replicas.table))
    return replicas


def test_a_module_is_a_row_and_averages_are_those_of_the_pattern() -> None:
    replicas = _replicas()
    pattern = divide_and_shuffle(two_tier(2, 3))
    place = replicas.place
    for step in range(3):
        wanted = pattern.round(step).mixed(replicas.table.detach().double().numpy(), place)
        replicas.average_parameters(pattern.round(step))
        torch.testing.assert_close(replicas.table.data.double(), torch.from_numpy(wanted), rtol=1e-5, atol=1e-6)
    weights = next(replicas.modules[4].parameters())
    torch.testing.assert_close(weights.flatten(), replicas.table.data[4, :12])
    hop = Round(((0, 1, 2, 3, 4, 5),), tuple((i, (i + 1) % 6) for i in range(6)))
    wanted = hop.mixed(replicas.table.detach().double().numpy(), place)
    replicas.average_parameters(hop)
    torch.testing.assert_close(replicas.table.data.double(), torch.from_numpy(wanted), rtol=1e-5, atol=1e-6)


def test_across_a_halved_uplink_a_pair_averages_half_while_others_average_all() -> None:
    replicas = _replicas()
    now = divide_and_shuffle(two_tier(2, 3), slow_uplinks=[0, 1], halved=[0, 1]).round(1)
    before = replicas.table.data.clone()
    replicas.average_parameters(now)
    second = [*range(6, 12), 14, 15, 18, 19, 22, 23]  # of 12, 4, 4 and 4 elements the second half
    first = [column for column in range(before.shape[1]) if column not in second]
    torch.testing.assert_close(replicas.table.data[0, second], before[[0, 3]][:, second].mean(0))
    torch.testing.assert_close(replicas.table.data[0, first], before[0, first], rtol=0, atol=0)
    torch.testing.assert_close(replicas.table.data[1], before[[1, 2]].mean(0))


def test_in_parts_a_step_sends_so_much_less_and_all_is_averaged_in_turn() -> None:
    whole = run(config(strategy="ds-sync", ensemble=0.0))[1]
    training, records = run(config(strategy="ds-sync", ensemble=0.0, parts=4))
    assert records[0].bytes_sent == pytest.approx(whole[0].bytes_sent / 4, rel=1e-3)
    assert records[0].communication_seconds < whole[0].communication_seconds / 3
    assert training.strategy.exchange(6).part == (2, 4)  # type: ignore[union-attr]
    replicas = _replicas()
    everybody, before = Round(((0, 1, 2, 3, 4, 5),)), replicas.table.data.clone()
    replicas.average_parameters(everybody, Part(1, 3))
    # Of 12, 4, 4 and 4 elements (weights, bias, and those of the normalization) the second third.
    turn = [4, 5, 6, 7, 13, 17, 21]
    others = [column for column in range(before.shape[1]) if column not in turn]
    torch.testing.assert_close(replicas.table.data[:, turn], before[:, turn].mean(0).expand(6, -1))
    torch.testing.assert_close(replicas.table.data[:, others], before[:, others], rtol=0, atol=0)


def test_an_ensemble_is_the_mean_of_all_workers_exponential_averages() -> None:
    training = memory_training(config(strategy="ds-sync", ensemble=0.9), NETWORK)
    wanted: torch.Tensor | None = None
    for step, _ in enumerate(training.records()):
        now = training.replicas.table.data.clone()
        weight = max(0.1, 1 / (step + 1))
        wanted = now if wanted is None else (1 - weight) * wanted + weight * now
    assert wanted is not None
    assert training.replicas.averages is not None
    torch.testing.assert_close(training.replicas.averages, wanted, rtol=1e-4, atol=1e-6)
    _, accuracy = training.judge.of_replicas(training.replicas)
    got = torch.cat([p.detach().flatten() for p in training.judge.model.parameters()])
    torch.testing.assert_close(got, wanted.mean(dim=0), rtol=1e-4, atol=1e-6)
    assert accuracy == judged(training.judge.model, training.judge.data, training.judge.device)[1]


def test_statistics_of_an_ensemble_are_computed_anew() -> None:
    training = memory_training(config(RESIDUAL, "ds-sync"), NETWORK)
    model, data = training.judge.model, training.judge.data
    first = next(layer for layer in model.modules() if isinstance(layer, nn.BatchNorm2d))
    first.running_mean.fill_(1e6)  # type: ignore[union-attr]
    renew_statistics(model, data, training.judge.device)
    inputs, _ = data.batch(data.train, torch.arange(len(data.train)), training.judge.device)
    with torch.no_grad():
        before_norm = model[0](inputs)  # type: ignore[index]
    torch.testing.assert_close(first.running_mean, before_norm.mean(dim=(0, 2, 3)), rtol=1e-4, atol=1e-5)
    assert first.momentum == 0.1
    assert not first.training


def test_without_an_ensemble_statistics_are_the_mean_over_workers() -> None:
    replicas = _replicas(2)
    for row, module in enumerate(replicas.modules):
        module[1].running_mean.fill_(float(row))  # type: ignore[index]
    training = memory_training(config(), NETWORK)
    judge = Judge(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), training.judge.data, torch.device("cpu"))
    with pytest.raises(RuntimeError):
        judge.of_replicas(replicas)  # these data do not fit the model, but it has been given its values
    assert judge.model[1].running_mean.tolist() == [0.5] * 4  # type: ignore[index]
    torch.testing.assert_close(next(judge.model.parameters()).flatten(), replicas.table.data.mean(dim=0)[:12])


def test_time_is_computing_and_simulated_communication() -> None:
    training, records = run(config(strategy="local-sgd", every=3, compute_seconds=0.5))
    nbytes = 4 * training.replicas.table.shape[1]
    for record in records:
        sends = record.step % 3 == 0
        assert record.seconds == pytest.approx(0.5 + record.communication_seconds)
        assert (record.communication_seconds > 0) == sends
        assert record.bytes_sent == (6 * nbytes if sends else 0)
    assert records[-1].elapsed == pytest.approx(sum(record.seconds for record in records))


def test_a_named_collective_and_a_plan_file_are_what_is_simulated(tmp_path: Path) -> None:
    made = replace(config(epochs=1), source=tmp_path / "x.toml")
    plan(NETWORK, 1e4, seconds=0.2).save(tmp_path / "plan.json")

    def first(name: str, job: Config = made) -> StepRecord:
        return next(memory_training(replace(job, plan=replace(job.plan, plan=name)), NETWORK).records())

    assert first("parameter_server").bytes_sent == first("backend").bytes_sent
    assert first("parameter_server").seconds > first("backend").seconds
    sent = Plan.load(tmp_path / "plan.json").schedule.transfer_bytes(4 * 547).sum()
    assert first("plan.json").bytes_sent == pytest.approx(sent, abs=1)
    with pytest.raises(InputError, match="ds-sync is not: name a collective"):
        first("plan.json", replace(made, strategy=replace(made.strategy, name="ds-sync")))
    plan(full_mesh(3), 1e4, seconds=0.2).save(tmp_path / "plan.json")
    with pytest.raises(InputError, match="is for 3 workers, of whom 3 take part"):
        first("plan.json")


def test_a_slow_worker_holds_up_everybody_but_asp() -> None:
    speeds = [1, 1, 1, 0.1]
    bsp, asp, ssp = (
        run(config(strategy=name, speeds=speeds, compute_seconds=1.0, epochs=1, staleness=1))[1][-1].elapsed
        for name in ("bsp", "asp", "ssp")
    )
    assert asp < 0.5 * bsp
    assert asp < ssp < bsp


def test_time_to_an_accuracy_is_found_in_the_records() -> None:
    records = [
        StepRecord(i, 1, 0.0, 1, 1.0, float(i), 0.0, 0.0, 0, 0.1, accuracy)
        for i, accuracy in enumerate([None, 0.2, 0.9])
    ]
    found = reached(records, 0.5)
    assert found is not None
    assert found.elapsed == 2.0
    assert reached(records, 0.95) is None


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str, str]:
    (tmp_path / "job.toml").write_text(MLP + "[training]\nbatch = 8\nepochs = 1\n")
    NETWORK.save(tmp_path / "net.yaml")
    return str(tmp_path / "job.toml"), str(tmp_path / "net.yaml"), str(tmp_path / "out")


def test_the_command_line_trains_in_memory(files: tuple[str, str, str], capsys: pytest.CaptureFixture[str]) -> None:
    job, network, out = files
    words = ["train", job, "--in-memory", "--network", network, "--strategy", "ds_sync", "-o", out]
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["strategy"] == "ds-sync"
    assert document["workers"] == 4
    assert document["simulated"] is True
    lines = [json.loads(line) for line in (Path(out) / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert lines[-1]["elapsed"] == pytest.approx(document["seconds"])
    assert main(words) == 0
    assert "of any disagreement" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--in-memory"], "--in-memory needs a network"),
        (["--in-memory", "--network", "NET", "--resume"], "writes none"),
        (["--in-memory", "--network", "NET", "--workers", "2"], "--workers starts processes"),
        (["--in-memory", "--network", "NET", "--strategy", "dssync"], 'there is no strategy "dssync"'),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_line(
    files: tuple[str, str, str], more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job, network, out = files
    assert main(["train", job, "-o", out, *(network if word == "NET" else word for word in more)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_training_of_real_workers_is_not_overwritten(files: tuple[str, str, str]) -> None:
    job, _, out = files
    made = Config.load(job)
    made = replace(made, output=replace(made.output, folder=out))
    Path(out).mkdir()
    (Path(out) / "checkpoint.pt").write_bytes(b"")
    with pytest.raises(ValueError, match="holds a training of real workers"):
        train_in_memory(made, NETWORK)
