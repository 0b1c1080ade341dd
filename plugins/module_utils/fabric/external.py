# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drivers of CDI Managers from other collections, named ``namespace.collection.name``.

Such a driver is the file ``plugins/module_utils/fabric_manager/NAME.py`` of its collection. The
file is imported when a configuration names it, and then calls ``register``. The running Python must
find the file. Install the other collection beside this collection, or let a module of the other
collection import the file, so that Ansible packs it.
"""

from __future__ import annotations

import importlib
import re
import typing as t
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .api import FabricManager
from .errors import BadConfiguration
from .registry import CREDENTIALS_OF, MANAGERS, DriverOption, ManagerEntry

# Increased when a change of the interface (api.py, errors.py, FabricConfig) breaks a driver.
INTERFACE: t.Final = 1
FOLDER: t.Final = "plugins/module_utils/fabric_manager"
NAME: t.Final = re.compile(r"([a-z][a-z0-9_]*\.[a-z][a-z0-9_]*)\.([a-z][a-z0-9_]*)")
ALLOWED: t.Final = f"{', '.join(MANAGERS)}, or namespace.collection.name for a driver of another collection"
# Options that an entry may require or take. ``ManagerEntry.options`` has a driver's own options.
CONNECTION: t.Final = ("tenant", "cluster", "layout_endpoint")
_TYPES: t.Final[Mapping[str, tuple[tuple[type[t.Any], ...], str]]] = {
    "str": ((str,), "a text"), "int": ((int,), "a whole number"), "float": ((int, float), "a number"),
    "bool": ((bool,), "true or false"),
}


@dataclass(frozen=True, slots=True)
class ExternalDriver:
    """A registered driver. ``make`` takes the FabricConfig. ``interface`` is a version number."""

    entry: ManagerEntry
    make: Callable[[t.Any], FabricManager]
    interface: int


_DRIVERS: t.Final[dict[str, ExternalDriver]] = {}


def register(name: str, entry: ManagerEntry, make: Callable[[t.Any], FabricManager], *, interface: int) -> None:
    """Make a driver known under a name. The file of the driver calls this when it is imported.

    Args:
        name: ``namespace.collection.name``, where the last part is the name of the file.
        entry: How the CDI Manager is reached, and which options the driver has of its own.
        make: Makes the driver from a checked FabricConfig. It sends nothing yet.
        interface: The ``INTERFACE`` for which the driver was written, as a number.

    Raises:
        ValueError: The name or the entry cannot be used. The text says why.
    """
    if not NAME.fullmatch(name):
        raise ValueError(f"name: {name!r} is not allowed. It must be namespace.collection.name")
    _must_be_among("auth", entry.auth, tuple(CREDENTIALS_OF))
    _must_be_among("requires", entry.requires, CONNECTION)
    _must_be_among("takes", entry.takes, CONNECTION)
    _must_be_among("options: type", tuple(option.type for option in entry.options.values()), tuple(_TYPES))
    if not entry.auth:
        raise ValueError(f"auth: () is not allowed. Name one or more of {', '.join(CREDENTIALS_OF)}")
    _DRIVERS[name] = ExternalDriver(entry, make, interface)


def _must_be_among(field: str, values: tuple[str, ...], allowed: tuple[str, ...]) -> None:
    for value in values:
        if value not in allowed:
            raise ValueError(f"{field}: {value!r} is not allowed. Allowed are {', '.join(allowed)}")


def collection_of(name: object) -> str:
    """Return ``namespace.collection`` of a driver from another collection, or an empty text."""
    found = NAME.fullmatch(name) if isinstance(name, str) else None
    return found[1] if found else ""


def entry_of(name: object) -> ManagerEntry:
    """Return how a CDI Manager is reached.

    Args:
        name: Value of the option ``manager``.

    Raises:
        BadConfiguration: There is no such CDI Manager, or its driver cannot be loaded.
    """
    if isinstance(name, str) and name in MANAGERS:
        return MANAGERS[name]
    if not collection_of(name):
        raise BadConfiguration("manager", name, f"allowed are {ALLOWED}")
    return driver_of(str(name)).entry


def driver_of(name: str) -> ExternalDriver:
    """Return a driver of another collection. Import it if it is not registered yet.

    Args:
        name: ``namespace.collection.name``.

    Raises:
        BadConfiguration: The collection or its driver is missing, does not load, or is for another
            version of the interface.
    """
    if name not in _DRIVERS:
        _load(name)
    found = _DRIVERS.get(name)
    if found is None:
        raise BadConfiguration("manager", name, f"{_file(name)} does not register this name")
    if found.interface != INTERFACE:
        raise BadConfiguration("manager", name, f"its driver is for interface {found.interface}, and this version of "
                               f"composable.infra has interface {INTERFACE}: install compatible versions")
    return found


def connected(name: str, config: object) -> FabricManager:
    """Return the CDI Manager of a driver from another collection.

    Args:
        name: ``namespace.collection.name``.
        config: The checked FabricConfig.

    Raises:
        BadConfiguration: As ``driver_of``, or the driver lacks a method of ``FabricManager``.
    """
    made = driver_of(name).make(config)
    lacking = [part for part in vars(FabricManager) if not part.startswith("_") and not hasattr(made, part)]
    if lacking:
        raise BadConfiguration("manager", name, f"its driver {type(made).__name__} lacks {', '.join(lacking)}")
    return made


def checked_options(options: Mapping[str, DriverOption], given: object) -> dict[str, t.Any]:
    """Return the options of a driver with their defaults.

    Args:
        options: The options that the driver takes, by name.
        given: Value of the option ``driver_options``.

    Raises:
        BadConfiguration: An option is unknown, missing or not allowed.
    """
    if not isinstance(given, Mapping):
        raise BadConfiguration("driver_options", given, "it must be a mapping")
    for name in given:
        if name not in options:
            allowed = f"allowed are {', '.join(sorted(options))}" if options else "this driver has no options"
            raise BadConfiguration(f"driver_options.{name}", given[name], allowed)
    return {name: _checked(f"driver_options.{name}", given.get(name), option) for name, option in options.items()}


def _checked(field: str, value: t.Any, option: DriverOption) -> t.Any:
    if value is None:
        if option.required:
            raise BadConfiguration(field, None, "it is required")
        return option.default
    types, words = _TYPES[option.type]
    if not isinstance(value, types) or (isinstance(value, bool) and option.type != "bool"):
        raise BadConfiguration(field, value, f"it must be {words}")
    if option.choices and value not in option.choices:
        raise BadConfiguration(field, value, f"allowed are {', '.join(map(str, option.choices))}")
    return float(value) if option.type == "float" else value


def _file(name: str) -> str:
    return f"{FOLDER}/{name.rpartition('.')[2]}.py of the collection {collection_of(name)}"


def _load(name: str) -> None:
    collection = f"ansible_collections.{collection_of(name)}"
    module = f"{collection}.{FOLDER.replace('/', '.')}.{name.rpartition('.')[2]}"
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise BadConfiguration("manager", name, _missing(name, collection, module, error.name or "")) from None
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise BadConfiguration("manager", name, f"{_file(name)} cannot be loaded: {why}") from error


def _missing(name: str, collection: str, module: str, absent: str) -> str:
    """Name the missing part: the collection, its driver, or a module that the driver imports."""
    if f"{collection}.".startswith(f"{absent}."):
        return f"the collection {collection_of(name)} is not found on this machine. Install it beside composable.infra"
    if f"{module}.".startswith(f"{absent}."):
        return f"there is no {_file(name)}"
    return f"{_file(name)} needs the Python module {absent}, which is not found where this runs"
