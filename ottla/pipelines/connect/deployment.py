"""A pipeline that is given to `ottla pipeline serve`: its file, and whether it is to run.

    <home>/<name>/deployed.json  the target state, and the file
    <home>/<name>/pipeline.yaml  the file, where it came by REST: JSON, which is YAML too

Promises: what was answered for is on the disk, so a server that is started again has every pipeline in its target
state. No Spark. Called by `supervisor` and `rest`.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from ottla.pipelines.connect.errors import Problem, SpecError
from ottla.pipelines.connect.spec import Pipeline, load
from ottla.pipelines.connect.state import Home, data_home
from ottla.pipelines.durable import write_beside
from ottla.pipelines.errors import PipelineError

DEPLOYED = "deployed.json"
FILE = "pipeline.yaml"


class Target(Enum):
    """What a pipeline is to do; the words are Kafka Connect's."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class Deployment:
    """One of them."""

    home: Home
    file: Path
    target: Target

    @property
    def name(self) -> str:
        return self.home.name

    @property
    def is_by_rest(self) -> bool:
        """Whether its file came by REST, and so may be replaced by REST."""
        return self.file == self.home.path / FILE

    def config(self) -> dict[str, Any]:
        """The words of the file as they stand in it: a `${env:NAME}` is not looked up."""
        import yaml

        try:
            values = yaml.safe_load(self.file.read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise PipelineError(f"{self.file} cannot be read: {error}") from None
        if not isinstance(values, dict):
            raise PipelineError(f"{self.file} is no map")
        found: dict[str, Any] = json.loads(json.dumps(values, default=str))
        return found

    def write(self) -> None:
        told = {"target": self.target.value, "file": str(self.file)}
        write_beside(self.home.path / DEPLOYED, json.dumps(told).encode())

    def remove(self) -> None:
        """It is not served any more; its checkpoint stays, and its file for who resets it."""
        (self.home.path / DEPLOYED).unlink(missing_ok=True)


def of_file(file: Path, base: Path | None = None) -> Deployment:
    """The deployment of a file that somebody keeps, in the target state that it had before."""
    path = file.resolve()
    if path.suffix == ".py":
        raise PipelineError(f"{file}: what is served is a YAML file, because its words are shown as JSON")
    home = Home(load(file).name, base)
    known = read(home)
    made = Deployment(home, path, Target.RUNNING if known is None else known.target)
    home.path.mkdir(parents=True, exist_ok=True)
    made.write()
    return made


def of_config(config: Mapping[str, Any], target: Target, base: Path | None = None) -> Deployment:
    """The deployment of a configuration that came by REST; `SpecError` with all that is wrong with it."""
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    pipeline = check(text)
    home = Home(pipeline.name, base)
    home.path.mkdir(parents=True, exist_ok=True)
    write_beside(home.path / FILE, text.encode())
    made = Deployment(home, home.path / FILE, target)
    made.write()
    return made


def check(text: str) -> Pipeline:
    """The pipeline that a text describes; nothing of it stays."""
    with tempfile.TemporaryDirectory(prefix="ottla-pipeline-") as directory:
        path = Path(directory, FILE)
        path.write_text(text, encoding="utf-8")
        try:
            return load(path)
        except SpecError as error:
            raise SpecError([Problem(FILE, one.line, one.message) for one in error.problems]) from None


def read(home: Home) -> Deployment | None:
    """The deployment of a name; None where there is none."""
    path = home.path / DEPLOYED
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return Deployment(home, Path(told["file"]), Target(told["target"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise PipelineError(f"{path} is damaged: {error}. Remove it, and deploy the pipeline again") from None


def deployments(base: Path | None = None) -> list[Deployment]:
    """All that there are, by name."""
    base = base or data_home()
    if not base.is_dir():
        return []
    found = (read(Home(path.name, base)) for path in sorted(base.iterdir()) if path.is_dir())
    return [one for one in found if one is not None]
