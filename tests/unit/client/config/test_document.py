"""`docs/clients/configuration.md` is what the tables say."""

from __future__ import annotations

from pathlib import Path

from ottla.client.config.document import configuration_page

PAGE = Path(__file__).parents[4] / "docs" / "clients" / "configuration.md"


def test_the_page_of_settings_is_what_the_tables_say(rewrite: bool) -> None:
    if rewrite:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(configuration_page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == configuration_page(), "run it with `pytest --rewrite`"
