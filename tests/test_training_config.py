"""Training files: what they may say, and how mistakes in them are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.cli import main
from weft.errors import InputError
from weft.training import Config, config_of
from weft.training.config import to_json
from weft.training.options import DATA, MODELS, Function, Mlp

SMALLEST = '[model]\nname = "mlp"\n[data]\nname = "digits"\n'
EXAMPLES = Path(__file__).parent.parent / "examples"


def parsed(text: str) -> Config:
    return config_of(text, Path("job.toml"))


def mistakes(text: str) -> str:
    with pytest.raises(InputError) as caught:
        parsed(text)
    return str(caught.value)


def test_a_model_and_data_are_enough() -> None:
    config = parsed(SMALLEST)
    assert config.model.options == Mlp()
    assert config.training.epochs == 10
    assert config.plan.plan == "auto"
    assert config.folder == Path("runs/job")


def test_every_value_is_read() -> None:
    config = parsed(
        '[model]\nname = "mlp"\nhidden = [5]\n[data]\nname = "synthetic_text"\nlength = 9\n'
        '[training]\nbatch = 8\naccumulate = 2\n[optimizer]\nname = "adamw"\nlearning_rate = 1\nmilestones = [0.3]\n'
        '[plan]\nplan = "double_binary_tree"\nbucket = "1MiB"\n[output]\nfolder = "here"\n'
    )
    assert config.model.options.hidden == (5,)
    assert (config.data.name, config.data.options.length) == ("synthetic-text", 9)
    assert config.training.accumulate == 2
    assert config.optimizer.learning_rate == 1.0
    assert config.optimizer.milestones == (0.3,)
    assert config.plan.bucket_bytes == 1 << 20
    assert config.folder == Path("here")


def test_names_may_have_underscores() -> None:
    config = parsed(SMALLEST + '[strategy]\nname = "ds_sync"\n')
    assert config.strategy.name == "ds-sync"
    config = parsed(SMALLEST + '[compress]\nname = "topk_a"\n')
    assert config.compress.name == "topk-a"


def test_functions_of_the_users_keep_their_keywords() -> None:
    config = parsed('[model]\nname = "mine.models:build"\ndepth = 3\n[data]\nname = "digits"\n')
    assert config.model.options == Function("mine.models:build", {"depth": 3})


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_examples_can_be_read(path: Path) -> None:
    assert Config.load(path).source == path


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (SMALLEST + "[trainin]\n", "trainin: there is no such key; did you mean 'training'?"),
        (SMALLEST + "[training]\nbach = 3\n", "training.bach: there is no such key; did you mean 'batch'?"),
        ('[model]\nname = "mlp"\nhiden = [3]\n[data]\nname = "digits"\n', "model.hiden: .*'hidden'"),
        ('[model]\nname = "resnet20"\n[data]\nname = "digits"\n', "model.name: there is no model .*'resnet-20'"),
        ('[model]\nname = "a:b:c"\n[data]\nname = "digits"\n', "is not module:function"),
        ("[model]\n[data]\nname = 3\n", "model.name: there is none; there are mlp"),
        (SMALLEST + "[training]\nbatch = 0\n", "training.batch: 0 is not possible; it must be at least 1"),
        (SMALLEST + "[training]\nbatch = true\n", "training.batch: true is not a whole number"),
        (SMALLEST + "[training]\nbatch = 2.5\n", "training.batch: 2.5 is not a whole number"),
        (SMALLEST + "[training]\nbatch = 9\naccumulate = 2\n", "cannot be cut into 2 equal pieces"),
        (SMALLEST + "[optimizer]\nlearning_rate = inf\n", "optimizer.learning_rate: inf .* finite"),
        (SMALLEST + "[optimizer]\nmomentum = 1\n", "optimizer.momentum: 1 .* less than 1"),
        (SMALLEST + '[optimizer]\nname = "sdg"\n', "optimizer.name: .*did you mean 'sgd'"),
        (SMALLEST + "[optimizer]\nmilestones = 3\n", "optimizer.milestones: 3 is not a list"),
        (SMALLEST + '[optimizer]\nmilestones = [0.2, "x"]\n', r'optimizer.milestones\[1\]: "x" is not a number'),
        (SMALLEST + '[plan]\nplan = "rign"\n', "plan.plan: there is no plan .*did you mean 'ring'"),
        (SMALLEST + '[plan]\nplan = "no.json"\n', "plan.plan: there is no file no.json"),
        (SMALLEST + '[plan]\nbucket = "25"\nnetwork = "no.yaml"\n', "plan.network: there is no file no.yaml"),
        (SMALLEST + '[plan]\nbucket = "much"\n', "plan.bucket: 'much' is not a size"),
        (
            SMALLEST + '[plan]\noverlap = "search"\n[strategy]\nname = "asp"\n',
            "strategy.name: search with asp: a gradient",
        ),
        (SMALLEST + '[plan]\nplan = "rat"\n[strategy]\nname = "ssp"\n', "strategy.name: the plan rat with ssp"),
        (SMALLEST + '[plan]\nplan = "forest"\n[strategy]\nname = "ds-sync"\n', "forest inside the groups of ds-sync"),
        (SMALLEST + '[output]\ntrace = "t.json"\n[strategy]\nname = "gossip"\n', "a trace with gossip"),
        ("model = 3\n" + '[data]\nname = "digits"\n', "model: 3 is not a table"),
        ('[data]\nname = "digits"\n', "model: there is none"),
        ('[model]\nname = "transformer"\nwidth = 10\nheads = 3\n[data]\nname = "digits"\n', "10 cannot be shared by 3"),
        ("model =\n", "is not TOML: .*line 1"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_a_remedy(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        parsed(text)


def test_all_mistakes_are_told_at_once() -> None:
    told = mistakes('[model]\nname = "mlp"\nhidden = [0]\n[data]\nname = "digit"\n[training]\nepochs = -1\nsed = 3\n')
    assert told.startswith("job.toml has 4 mistakes:\n")
    for place in ("model.hidden[0]", "data.name", "training.epochs", "training.sed"):
        assert f"\n  {place}: " in told


def test_every_default_is_within_its_own_limits() -> None:
    for table, kinds in (("model", MODELS), ("data", DATA)):
        for name in kinds:
            text = SMALLEST.replace('"mlp"' if table == "model" else '"digits"', f'"{name}"')
            assert getattr(parsed(text), table).options == kinds[name]()


def test_what_does_not_change_the_result_is_not_compared() -> None:
    steps = SMALLEST + '[training]\nsteps = 3\n[output]\nfolder = "x"\n'
    assert to_json(parsed(steps)) == to_json(parsed(SMALLEST))
    assert to_json(parsed(SMALLEST + "[training]\nseed = 3\n")) != to_json(parsed(SMALLEST))


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--epochs", "0"], "--epochs 0 is not possible"),
        (["--plan", "rng"], "--plan: there is no plan"),
        (["--network", "no.yaml"], "--network: there is no file"),
        (["--workers", "0"], "--workers 0 is not possible"),
        (["--resume", "--fresh"], "leave one of them out"),
    ],
)
def test_mistakes_on_the_command_line_are_one_line_and_exit_code_2(
    flags: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.toml"
    file.write_text(SMALLEST)
    assert main(["train", str(file), *flags]) == 2
    out = capsys.readouterr()
    assert told in out.err
    assert out.err.count("\n") == 1
    assert out.out == ""


def test_a_file_that_is_not_there_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "nowhere.toml"]) == 2
    assert "cannot read nowhere.toml: No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variables", "flags", "told"),
    [
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "4"}, [], "would all train alone.*RANK=.SLURM_PROCID"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, [], "MASTER_ADDR and MASTER_PORT not"),
        ({"RANK": "zero", "WORLD_SIZE": "2"}, [], "RANK is 'zero'"),
        ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "x", "MASTER_PORT": "1"}, ["--workers", "2"], "leave it out"),
    ],
)
def test_an_environment_that_cannot_work_is_refused(
    variables: dict[str, str], flags: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    file = tmp_path / "job.toml"
    file.write_text(SMALLEST)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    import re

    assert main(["train", str(file), *flags]) == 2
    assert re.search(told, capsys.readouterr().err)
