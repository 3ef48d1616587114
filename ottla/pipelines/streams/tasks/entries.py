"""What a key has many of, in order: records by their time, windows by their start, rows by the key of another table.

A few entries lie in the text of the key's state. More than that lie on the shelf as pages, and the key's state has the
list of them: so k records of a key with n entries read and write the pages that they touch, and not all n entries.

Promises: entries come in the order of their keys; what was put is on the shelf when the task has saved the key's state.
An earlier version kept any number of entries in the state's text. They are read from there, and cut into pages when the
state is written next. Called by operators, through `Task.entries`; pages are never iterated while they change.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.pipelines.streams.tasks.task import Shelf

PAGE = 128
"""Entries that a page has at most when it is written, and so has the text of a key's state."""
FEW = 16
"""So many entries are listed at once; of more, who asks may want only the first."""
PAGES, NEXT = "pages", "next"
"""In a key's state: the list of pages, as [first key, number, entries], and the number of the next one. No entry's key
is such a word: it is an integer or a JSON object."""


@dataclass(slots=True)
class _Page:
    """Some entries, in order, none before `first`. One that was not read yet has no keys."""

    first: Any
    number: int | None
    count: int
    keys: list[Any] | None = None
    values: dict[Any, Any] = field(default_factory=dict)
    is_changed: bool = False


_first = attrgetter("first")


class Entries:
    """The entries of one name in one key's state. `kind` makes an entry's key of its text.

    Without pages, which is how nearly every key has them, they are a dictionary, put in order when that is asked for.
    """

    __slots__ = ("_kind", "_next", "_order", "_pages", "_shelf", "_values", "_where")

    def __init__(self, shelf: Shelf, key: str, name: str, stored: dict[str, Any], kind: Callable[[str], Any]) -> None:
        self._shelf = shelf
        self._where = (name, key)
        self._kind = kind
        self._order: list[Any] | None = None
        self._values: dict[Any, Any] = {}
        if PAGES in stored:
            self._pages: list[_Page] | None = [_Page(first, number, count) for first, number, count in stored[PAGES]]
            self._next = stored[NEXT]
        else:
            self._pages = None
            self._next = 0
            if stored:
                self._values = {kind(text): value for text, value in stored.items()}

    def __len__(self) -> int:
        return len(self._values) if self._pages is None else sum(page.count for page in self._pages)

    def __bool__(self) -> bool:
        return bool(self._values if self._pages is None else self._pages)  # a page that becomes empty is dropped

    def get(self, key: Any) -> Any:
        """An entry's value, None when there is no such entry. Who changes it puts it again."""
        if self._pages is None:
            return self._values.get(key)
        return self._read(self._index(key)).values.get(key) if self._pages else None

    def put(self, key: Any, value: Any) -> None:
        """Gives an entry its value."""
        if self._pages is None:
            if self._order is not None and key not in self._values:
                bisect.insort(self._order, key)
            self._values[key] = value
            return
        if not self._pages:
            self._pages.append(_Page(key, None, 0, []))
        page = self._read(self._index(key))
        if key not in page.values:
            assert page.keys is not None
            bisect.insort(page.keys, key)
            page.count += 1
            page.first = min(page.first, key)
        page.values[key] = value
        page.is_changed = True

    def pop(self, key: Any) -> Any:
        """Takes an entry away; None when there is no such entry."""
        if self._pages is None:
            if key in self._values and self._order is not None:
                del self._order[bisect.bisect_left(self._order, key)]
            return self._values.pop(key, None)
        if not self._pages:
            return None
        index = self._index(key)
        page = self._read(index)
        if key not in page.values:
            return None
        assert page.keys is not None
        del page.keys[bisect.bisect_left(page.keys, key)]
        page.count -= 1
        page.is_changed = True
        value = page.values.pop(key)
        if not page.count:
            self._drop(index)
        return value

    def span(self, first: Any = None, last: Any = None) -> Iterable[tuple[Any, Any]]:
        """The entries from `first` up to and with `last`, in order."""
        if self._pages is not None:
            return self._span_of_pages(self._pages, first, last)
        if not self._values:
            return ()
        order = self._in_order()
        start = 0 if first is None else bisect.bisect_left(order, first)
        end = len(order) if last is None else bisect.bisect_right(order, last)
        if end - start > FEW:
            return self._span_in_order(order, start, end)
        return [(key, self._values[key]) for key in order[start:end]]

    def _span_in_order(self, order: list[Any], start: int, end: int) -> Iterator[tuple[Any, Any]]:
        for place in range(start, end):
            yield order[place], self._values[order[place]]

    def _span_of_pages(self, pages: list[_Page], first: Any, last: Any) -> Iterator[tuple[Any, Any]]:
        for index in range(0 if first is None or not pages else self._index(first), len(pages)):
            if last is not None and pages[index].first > last:
                return
            page = self._read(index)
            assert page.keys is not None
            start = 0 if first is None else bisect.bisect_left(page.keys, first)
            end = len(page.keys) if last is None else bisect.bisect_right(page.keys, last)
            for place in range(start, end):
                yield page.keys[place], page.values[page.keys[place]]

    def back(self, last: Any) -> Iterator[tuple[Any, Any]]:
        """The entries from `last` on backwards."""
        if self._pages is None:
            order = self._in_order()
            for place in range(bisect.bisect_right(order, last) - 1, -1, -1):
                yield order[place], self._values[order[place]]
            return
        for index in range(self._index(last) if self._pages else -1, -1, -1):
            page = self._read(index)
            assert page.keys is not None
            for place in range(bisect.bisect_right(page.keys, last) - 1, -1, -1):
                yield page.keys[place], page.values[page.keys[place]]

    def forget(self, last: Any) -> None:
        """Takes away the entries up to and with `last`; pages of nothing else are not read for it."""
        while self._pages is not None and len(self._pages) > 1 and self._pages[1].first <= last:
            self._drop(0)
        for key in [key for key, _ in self.span(None, last)]:
            self.pop(key)

    def _in_order(self) -> list[Any]:
        if self._order is None:
            self._order = sorted(self._values)
        return self._order

    def stored(self) -> dict[str, Any]:
        """What the key's state has of it, after the pages that were changed are written."""
        if self._pages is None:
            if len(self._values) <= PAGE:
                return self._values
            order = self._in_order()
            self._pages = [_Page(order[0], None, len(order), order, self._values)]
            self._values, self._order = {}, None
        # Fewer than make pages, so that one entry more and one less do not move all of them each time.
        elif len(self) <= PAGE // 4:
            return self._inline()
        self._even_out()
        for page in self._pages:
            if page.is_changed or page.number is None:
                if page.number is None:
                    page.number, self._next = self._next, self._next + 1
                self._shelf.put(self._name(page.number), json.dumps(page.values, separators=(",", ":")))
                page.is_changed = False
        return {PAGES: [[page.first, page.number, page.count] for page in self._pages], NEXT: self._next}

    def _inline(self) -> dict[str, Any]:
        values = dict(self.span())
        for page in self._pages or ():
            self._erase(page)
        self._pages, self._values, self._order, self._next = None, values, list(values), 0
        return values

    def _even_out(self) -> None:
        """Makes one page of two that are small, and several of one that is too large."""
        assert self._pages is not None
        pages: list[_Page] = []
        for page in self._pages:
            last = pages[-1] if pages else None
            if last is not None and (last.is_changed or page.is_changed) and last.count + page.count <= PAGE // 2:
                keys = [*self._keys(last), *self._keys(page)]
                self._erase(page)
                pages[-1] = _Page(keys[0], last.number, len(keys), keys, last.values | page.values, True)
            else:
                pages.append(page)
        self._pages = []
        for page in pages:
            # Time mostly goes on: what is added behind fills pages, what is added within leaves room for more.
            size = PAGE if page is pages[-1] else PAGE // 2
            self._pages += [page] if page.count <= PAGE else self._parts(page, size)

    def _parts(self, page: _Page, size: int) -> Iterator[_Page]:
        keys = self._keys(page)
        for start in range(0, len(keys), size):
            part = keys[start : start + size]
            values = {key: page.values[key] for key in part}
            yield _Page(part[0], page.number if start == 0 else None, len(part), part, values, True)

    def _index(self, key: Any) -> int:
        assert self._pages is not None
        if len(self._pages) == 1:
            return 0
        return max(0, bisect.bisect_right(self._pages, key, key=_first) - 1)

    def _read(self, index: int) -> _Page:
        assert self._pages is not None
        page = self._pages[index]
        self._keys(page)
        return page

    def _keys(self, page: _Page) -> list[Any]:
        """A page's keys, read from the shelf when first asked for."""
        if page.keys is None:
            assert page.number is not None
            name = self._name(page.number)
            text = self._shelf.get(name)
            assert text is not None, f"{name} is on the shelf"
            page.values = {self._kind(key): value for key, value in json.loads(text).items()}
            page.keys = sorted(page.values)
        return page.keys

    def _drop(self, index: int) -> None:
        assert self._pages is not None
        self._erase(self._pages.pop(index))

    def _erase(self, page: _Page) -> None:
        if page.number is not None:
            self._shelf.delete(self._name(page.number))

    def _name(self, number: int) -> str:
        name, key = self._where
        return f"{PAGES} {name} {number} {key}"
