"""The pytest plugin, run by pytest in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parent.parent.parent
PLUGIN = ("-p", "ottla.testing.plugin", "-p", "no:cacheprovider")

TWO_MODULES = {
    "test_one": """
        import pytest, socket

        def test_it_serves(ottla_bootstrap, ottla_topic, seen):
            host, port = ottla_bootstrap.split(",")[0].split(":")
            socket.create_connection((host, int(port))).close()
            seen.append((ottla_bootstrap, ottla_topic))

        @pytest.mark.parametrize("case", ["a/b", "ä"])
        def test_each_has_a_topic_of_its_own(ottla_cluster, ottla_topic, seen, case):
            assert ottla_cluster.is_running()
            seen.append((ottla_cluster.bootstrap_servers, ottla_topic))
        """,
    "test_two": """
        def test_another_module(ottla_bootstrap, ottla_topic, seen):
            seen.append((ottla_bootstrap, ottla_topic))
        """,
}
CONFTEST = """
    import pytest

    _seen = []

    @pytest.fixture
    def seen():
        return _seen

    def pytest_unconfigure(config):
        for address, topic in _seen:
            print("SEEN", address, topic)
    """


def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[list[str]]:
    """The address and the topic that each test saw; all must pass."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # this plugin and no other, installed or not
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(**TWO_MODULES)
    result = pytester.runpytest_subprocess(*PLUGIN, "-s", *arguments, timeout=60)
    result.assert_outcomes(passed=4)
    return [line.split()[1:] for line in result.outlines if line.startswith("SEEN")]


def test_one_cluster_serves_the_session_and_each_test_has_a_topic(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = run(pytester, monkeypatch)
    assert len({address for address, _ in seen}) == 1
    assert [topic for _, topic in seen] == [
        "test_it_serves.0",
        "test_each_has_a_topic_of_its_own-a-b.1",
        "test_each_has_a_topic_of_its_own-xe4.2",
        "test_another_module.3",
    ]


@pytest.mark.parametrize(("scope", "clusters"), [("module", 2), ("function", 4)])
def test_the_scope_is_chosen_by_an_option(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, scope: str, clusters: int
) -> None:
    assert len({address for address, _ in run(pytester, monkeypatch, "--ottla-scope", scope)}) == clusters


def test_scope_and_settings_are_chosen_in_the_ini_file(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini("[pytest]\nottla_scope = module\nottla_settings =\n  auto.create.topics.enable = false\n")
    assert len({address for address, _ in run(pytester, monkeypatch)}) == 2


def test_a_broker_in_a_process_of_its_own(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len({address for address, _ in run(pytester, monkeypatch, "--ottla-processes")}) == 1


@pytest.mark.parametrize("in_ini", [False, True])
def test_a_cluster_of_several_nodes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, in_ini: bool) -> None:
    if in_ini:
        pytester.makeini("[pytest]\nottla_nodes = 3\n")
    seen = run(pytester, monkeypatch, *([] if in_ini else ["--ottla-nodes", "3"]))
    assert {len(address.split(",")) for address, _ in seen} == {3}


def test_an_unknown_scope_is_refused(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini("[pytest]\nottla_scope = galaxy\n")
    pytester.makepyfile("def test(ottla_cluster): pass")
    result = pytester.runpytest_subprocess(*PLUGIN, timeout=60)
    assert result.ret != 0
    assert "ottla_scope is one of session, package, module, class, function, and not 'galaxy'" in str(result.stdout)


def test_a_run_that_uses_no_fixture_loads_nothing(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(
        """
        import sys

        def test():
            loaded = {name for name in sys.modules if name.startswith("ottla")}
            assert loaded == {"ottla", "ottla.lazy", "ottla.testing", "ottla.testing.plugin"}
        """
    )
    pytester.runpytest_subprocess(*PLUGIN, timeout=60).assert_outcomes(passed=1)


def test_pytest_finds_the_plugin_by_its_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"ottla": "ottla.testing.plugin"}


def test_the_plugin_is_the_only_part_that_needs_pytest() -> None:
    script = "import sys; sys.modules['pytest'] = None; import ottla.testing; ottla.testing.Cluster().start().close()"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
