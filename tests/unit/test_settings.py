"""The ConfigMap that is followed (rule 9) and the flags that a process starts with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.gpunames import is_extended_resource
from shared.core.model import Placement, Settings
from shared.settings import (
    BadSettings,
    GpuSettings,
    ProcessSettings,
    parse,
    read,
)

ALL = {
    "enabled": "false",
    "placement": "scheduler",
    "resourceNames": "nvidia.com/A10, amd.com/gpu",
    "forbidRawNames": "true",
    "kubevirtNamespace": "kubevirt",
    "kubevirtUsernames": "system:serviceaccount:kubevirt:kubevirt-controller,other",
    "binderUsername": "binder",
    "trustedGroups": "system:masters,ops",
    "nodeLossGrace": "90s",
    "refusalSkip": "1h30m",
    "pinTimeout": "2m",
    "starvationBound": "24h",
}
EVERYTHING = GpuSettings(
    reading=Settings(
        enabled=False,
        placement=Placement.SCHEDULER,
        kubevirt_namespace="kubevirt",
        resource_names=frozenset({"nvidia.com/A10", "amd.com/gpu"}),
    ),
    forbid_raw_names=True,
    kubevirt_usernames=frozenset({"system:serviceaccount:kubevirt:kubevirt-controller", "other"}),
    binder_username="binder",
    trusted_groups=frozenset({"system:masters", "ops"}),
    node_loss_grace=90,
    refusal_skip=5400,
    pin_timeout=120,
    starvation_bound=86400,
)


def test_every_key_is_read() -> None:
    assert parse(ALL, GpuSettings()) == (EVERYTHING, ())


def test_the_document_tells_of_every_key_and_whether_it_is_read_today() -> None:
    repository = Path(__file__).parents[2]
    text = (repository / "docs/settings.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", text, re.MULTILINE))
    assert rows.keys() == ALL.keys()
    sources = "".join(
        path.read_text()
        for package in ("admission", "apiserver", "binder", "shared")
        for path in (repository / package).rglob("*.py")
        if path not in {repository / "shared/settings.py", repository / "binder/system.py"}
    )  # the latter only repeats what is in force
    for key, told in rows.items():
        name = re.sub("([A-Z])", r"_\1", key).lower()
        is_read = re.search(rf"\.{name}\b", sources) is not None
        assert told != ("not yet" if is_read else "yes"), key


def test_a_key_that_is_absent_has_its_default_not_its_last_value() -> None:
    assert parse({}, EVERYTHING) == (GpuSettings(), ())


def test_blanks_around_a_value_and_an_empty_list_are_fine() -> None:
    data = {"enabled": " false\n", "resourceNames": "", "placement": "binder "}
    got, problems = parse(data, EVERYTHING)
    assert problems == ()
    assert got.reading == Settings(enabled=False)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("enabled", "yes", "true or false"),
        ("enabled", "True", "true or false"),
        ("enabled", "", "true or false"),
        ("placement", "Binder", "binder or scheduler"),
        ("forbidRawNames", "1", "true or false"),
        ("kubevirtNamespace", "Kube_Virt", "the name of a namespace"),
        ("kubevirtNamespace", "a" * 64, "the name of a namespace"),
        ("kubevirtUsernames", " , ", "names separated by commas, at least one"),
        ("trustedGroups", "a group", "names separated by commas, at least one"),
        ("binderUsername", "a,b", "one name, without blanks or commas"),
        ("nodeLossGrace", "5", "a time from 1s to 24h"),
        ("nodeLossGrace", "", "a time from 1s to 24h"),
        ("refusalSkip", "0s", "a time from 1s to 24h"),
        ("pinTimeout", "-5m", "a time from 1s to 24h"),
        ("pinTimeout", "5m ago", "a time from 1s to 24h"),
        ("starvationBound", "25h", "a time from 1s to 24h"),
        ("starvationBound", "\u0665m", "a time from 1s to 24h"),
        ("starvationBound", "9" * 5000 + "s", "a time from 1s to 24h"),
    ],
    ids=lambda text: text[:30],
)
def test_a_bad_value_keeps_the_last_good_one_and_is_named(
    key: str, value: str, expected: str
) -> None:
    got, problems = parse(ALL | {key: value}, EVERYTHING)
    assert got == EVERYTHING
    assert [problem.key for problem in problems] == [key]
    assert str(problems[0]).startswith(f"{key}: '{value[:20]}")
    assert f"expected {expected}" in str(problems[0])


def test_all_problems_are_told_at_once_and_the_good_keys_count() -> None:
    got, problems = parse({"enabled": "no", "placement": "x", "pinTimeout": "7m"}, GpuSettings())
    assert [problem.key for problem in problems] == ["enabled", "placement"]
    assert got.pin_timeout == 420


@pytest.mark.parametrize(
    "bad", ["cpu", "memory", "nvidia.com/", "/gpu", "kubernetes.io/x", "requests.nvidia.com/gpu"]
)
def test_a_resource_name_that_is_none_of_a_device_is_left_out_alone(bad: str) -> None:
    got, problems = parse({"resourceNames": f"nvidia.com/A10,{bad},amd.com/gpu"}, GpuSettings())
    assert got.reading.resource_names == {"nvidia.com/A10", "amd.com/gpu"}
    assert [(problem.key, problem.value) for problem in problems] == [("resourceNames", bad)]


def test_a_misspelt_key_is_told_with_the_keys_that_there_are() -> None:
    got, problems = parse({"Enabled": "false"}, GpuSettings())
    assert got == GpuSettings()
    assert str(problems[0]).startswith("Enabled: 'false', expected one of the keys binderUsername,")


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("nvidia.com/GA102GL_A10", True),
        ("nvidia.com/mig-1g.5gb", True),
        ("devices.kubevirt.io/kvm", True),
        ("cpu", False),
        ("hugepages-2Mi", False),
        ("kubernetes.io/thing", False),
        ("node.kubernetes.io/thing", False),
        ("requests.nvidia.com/gpu", False),
        ("NVIDIA.com/gpu", False),
        ("nvidia.com/a/b", False),
        ("nvidia.com /gpu", False),
        ("nvidia.com/g pu", False),
        ("nvidia.com/" + "a" * 64, False),
        ("a" * 250 + ".com/gpu", False),
        ("", False),
    ],
)
def test_an_extended_resource_is_what_kubernetes_calls_one(name: str, want: bool) -> None:
    assert is_extended_resource(name) is want


@given(st.dictionaries(st.sampled_from([*ALL, "other"]), st.text() | st.none() | st.integers()))
def test_whatever_the_map_holds_settings_come_out(data: dict[str, object]) -> None:
    got, problems = parse(data, GpuSettings())
    assert isinstance(got, GpuSettings)
    assert all(problem.key in data for problem in problems)


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GPU_KUBECONFIG", "GPU_CONTEXT", "GPU_LOG_LEVEL", "GPU_LOG_FORMAT"):
        monkeypatch.delenv(name, raising=False)


class TestFlags:
    """What a process starts with."""

    def test_there_are_defaults_for_running_in_a_cluster(self) -> None:
        got = read(ProcessSettings, [])
        assert (got.kubeconfig, got.log_level, got.log_format) == (None, "info", "json")

    def test_a_flag_wins_over_its_variable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GPU_LOG_LEVEL", "warning")
        monkeypatch.setenv("GPU_LOG_FORMAT", "text")
        got = read(ProcessSettings, ["--log-level=debug", "--kubeconfig", "/k"])
        assert (got.log_level, got.log_format, got.kubeconfig) == ("debug", "text", Path("/k"))

    def test_every_bad_value_is_named_with_what_was_expected(self) -> None:
        with pytest.raises(BadSettings) as caught:
            read(ProcessSettings, ["--log-level=loud", "--log-format=xml"])
        first, second = str(caught.value).splitlines()
        assert first.startswith("--log-level: 'loud'")
        assert "'debug', 'info', 'warning' or 'error'" in first
        assert second.startswith("--log-format: 'xml'")

    def test_a_flag_that_does_not_exist_ends_the_process(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as caught:
            read(ProcessSettings, ["--log-levle=debug"])
        assert caught.value.code == 2
        assert "--log-levle=debug" in capsys.readouterr().err
