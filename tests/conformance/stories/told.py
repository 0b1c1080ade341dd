# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stories of what goes wrong around a CDI Manager, and with which managers each of them can happen."""

from __future__ import annotations

import contextlib
import typing as t
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ansible_collections.composable.infra.emulator import Emulator
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricManager
from ansible_collections.composable.infra.tests.conformance.managers import ROWS, client, params, rows_of


@dataclass(frozen=True)
class Story:
    """``means``: what holds, in a sentence. ``test``: the file that tells it, and the function.

    ``apart``: rows of managers.py with which it cannot happen, or need not be tried, and why.
    """

    title: str
    means: str
    test: str
    apart: Mapping[str, str] = field(default_factory=dict)

    def why_not(self, row: str) -> str:
        """Return why it is not tried with a row, empty if it is."""
        return self.apart.get(row, "")


def _all_of(why: str, *managers: str) -> dict[str, str]:
    """The reason for each row of some managers."""
    return {row: why for manager in managers for row in rows_of(manager)}


_NUMBER: t.Final = "a request names a number of devices, so two clients of one machine ask for the same one"
_WHOLE: t.Final = "each list comes whole"
_AT_ONCE: t.Final = "it answers when the change is done, and has no operations"
_NO_LOGIN: t.Final = "its clients do not log in"
_ONE_WAY: t.Final = "it is the same in every way of the manager, so one way is tried"

PROXY: t.Final = Story(
    "a proxy answers in place of the manager",
    "An HTML page with 404 or 503 is no answer about a machine, a device or an operation. Nothing is attached twice, "
    "and nothing counts as detached.",
    "test_proxy.py::test_a_page_of_a_proxy_is_no_answer",
)
SAME_MACHINE: t.Final = Story(
    "a second client attaches to the same machine",
    "Between our look and our request another client attaches to the machine. Each client is given its own device.",
    "test_second_client.py::test_each_client_of_one_machine_is_given_its_own_device",
    {**_all_of(_NUMBER, "cm"), "sunfish-numbers": _NUMBER,
     **_all_of("devices of another's apply look like those that ours connected before it failed", "nec"),
     "redfish-compose-one-sided": "the system's ETag, which a manifest names, does not change when a block comes"},
)
OTHER_MACHINE: t.Final = Story(
    "a second client attaches to another machine",
    "Between our look and our request another client takes the device that we have chosen. No device is on two "
    "machines.",
    "test_second_client.py::test_a_device_that_another_machine_has_just_got_is_not_taken",
)
DETACHES: t.Final = Story(
    "a second client moves our device",
    "Between our look and our request another client gives our device to another machine. Our detach leaves it there.",
    "test_second_client.py::test_a_device_that_has_just_moved_is_not_detached_from_its_new_machine",
)
PAGES: t.Final = Story(
    "a list has several pages",
    "A device that leaves between two pages hides no other, and a page that is not there ends no list.",
    "test_paging.py::test_a_list_of_several_pages_is_whole_or_an_error",
    {**_all_of(_WHOLE, "fm", "cm"), "sunfish-numbers": _WHOLE, **_all_of("only the list of applies has pages", "nec"),
     **dict.fromkeys(("redfish", "redfish-tasks", "redfish-zones", "redfish-compose", "redfish-compose-one-sided"),
                     _ONE_WAY)},
)
APPLIES: t.Final = Story(
    "the list of applies has several pages",
    "After a lost reply the apply is found among more than a page of them, and one device comes.",
    "test_paging.py::test_an_apply_without_a_reply_is_found_on_any_page",
    _all_of("it has no list of applies", "fm", "cm", "sunfish", "redfish"),
)
HUNG: t.Final = Story(
    "an operation never ends",
    "The change is begun once, its end is waited for within the attach timeout, and the outcome is uncertain. NEC "
    "takes no other apply meanwhile, and says so.",
    "test_hung.py::test_an_operation_that_never_ends_is_requested_once",
)
LOGINS: t.Final = Story(
    "the manager starts again and has forgotten logins",
    "The client logs in again. One device is attached, and it is detached.",
    "test_restart.py::test_a_manager_that_has_forgotten_logins_is_logged_in_to_again",
    {**_all_of(_NO_LOGIN, "nec", "sunfish"), "cm-complete": _ONE_WAY,
     **{row: _ONE_WAY for row in rows_of("redfish") if ROWS[row].variant}},
)
OPERATIONS: t.Final = Story(
    "the manager starts again and gives its operations' ids to others",
    "A handle of an operation from before brings its own device or none, never another operation's.",
    "test_restart.py::test_an_operation_of_before_the_restart_is_not_mistaken_for_a_later_one",
    {**_all_of(_AT_ONCE, "fm"), "sunfish-numbers": _AT_ONCE,
     **dict.fromkeys(("cm-complete", "nec-cpus", "nec-sequential"), _ONE_WAY),
     **{row: _AT_ONCE for row in rows_of("redfish") if row != "redfish-tasks"}},
)
STORIES: t.Final = (
    PROXY, SAME_MACHINE, OTHER_MACHINE, DETACHES, PAGES, APPLIES, HUNG, LOGINS, OPERATIONS,
)


def rows(story: Story) -> list[t.Any]:
    """Rows with which a story is tried, as parameters of its test."""
    return params(name for name in ROWS if not story.why_not(name))


@contextlib.contextmanager
def clients(emulator: Emulator, row: str, count: int = 1, **options: t.Any) -> Iterator[list[FabricManager]]:
    """Clients of the emulated manager that know nothing of each other; closed afterwards."""
    made = [client(emulator, ROWS[row], **options) for _each in range(count)]
    try:
        yield made
    finally:
        for each in made:
            each.close()


class Meanwhile:
    """A proof that lets something happen once, between the client's look and its request."""

    def __init__(self, work: t.Callable[[], object]) -> None:
        self._work, self.happened = work, False

    def __call__(self) -> None:
        if not self.happened:
            self.happened = True
            self._work()
