# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Common parts of both inventories: hosts as plain data, and how they enter an inventory."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import typing as t
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ansible.errors import AnsibleError, AnsibleParserError
from ansible.inventory.group import to_safe_group_name
from ansible.module_utils.common.validation import check_type_dict
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable

from ansible_collections.composable.infra.plugins.module_utils.environment import problem
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.module_base import KNOWN_ERRORS

try:
    from ansible.template import trust_as_template
# In ansible-core before 2.19, every text may be a template unless it is marked as unsafe.
except ImportError:
    from ansible.utils.unsafe_proxy import wrap_var

    def _mark(text: str, plain: bool) -> str:
        return text if plain else t.cast(str, wrap_var(text))
else:
    def _mark(text: str, plain: bool) -> str:
        return trust_as_template(text) if plain else text


@dataclass(slots=True)
class Host:
    """One host, as in the cache."""

    name: str
    variables: Json
    groups: list[str] = field(default_factory=list)


def unique_names(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return inventory names by uid: the name, or name and uid if several have the name."""
    found = list(pairs)
    times: dict[str, int] = {}
    for _uid, name in found:
        times[name] = times.get(name, 0) + 1
    return {uid: name if times[name] == 1 else f"{name}-{uid}" for uid, name in found}


# Without braces, brackets, quotes, percent and number signs a text cannot be a template.
_PLAIN: t.Final = re.compile(r"[\w .:/@+-]*")


class Plain:
    """Marks texts that cannot be a template as safe for templates.

    ``ansible-inventory --list`` prints a text without that mark as a mapping, which takes four
    times as long. A text that could be a template is never marked. Equal texts share one object.
    """

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def copy(self, value: t.Any) -> t.Any:
        """Return a copy of the value with marked texts."""
        kind = type(value)
        if kind is str:
            return self._known.get(value) or self._text(value)
        if kind is dict:
            return {key: self.copy(inner) for key, inner in value.items()}
        return [self.copy(inner) for inner in value] if kind is list else value

    def _text(self, text: str) -> str:
        return self._known.setdefault(text, _mark(text, bool(_PLAIN.fullmatch(text))))


def unset_blank(definitions: Mapping[str, Json]) -> None:
    """Unset blank variables of the options.

    Ansible would use such a value, and refuse it as a choice. AWX sets every variable of a
    credential type, and sets it to an empty text if its field is empty.
    """
    for definition in definitions.values():
        for variable in definition.get("env") or ():
            if not os.environ.get(variable["name"], "-").strip():
                del os.environ[variable["name"]]


@contextlib.contextmanager
def texts_of_mappings(definitions: Mapping[str, Json]) -> Iterator[dict[str, str]]:
    """Yield the texts of variables of options that are mappings. Meanwhile the variables are unset.

    Ansible reads a mapping of a plugin from a file only, and refuses the text of a variable.
    Source: ansible/ansible, ``ensure_type`` in lib/ansible/config/manager.py.

    Args:
        definitions: Options of the plugin by name.
    """
    variables = {name: variable["name"] for name, definition in definitions.items() if definition.get("type") == "dict"
                 for variable in definition.get("env") or () if variable["name"] in os.environ}
    texts = {name: os.environ.pop(variable) for name, variable in variables.items()}
    try:
        yield texts
    finally:
        os.environ.update({variables[name]: text for name, text in texts.items()})


def _as_arguments(definitions: Mapping[str, Json]) -> dict[str, Json]:
    """Return options of a plugin in the form of options of a module."""
    return {name: {**definition, "fallback": (None, [each["name"] for each in definition.get("env") or ()])}
            for name, definition in definitions.items()}


# Options with texts that Ansible evaluates for each host.
EVALUATED: t.Final = ("compose", "groups", "keyed_groups")


def refuse_templates(given: Mapping[str, t.Any]) -> None:
    """Raise AnsibleParserError for an option that is a template.

    Its text would be sent unchanged, for example as a password.
    """
    for name, value in given.items():
        if name not in EVALUATED and isinstance(value, str) and ("{{" in value or "{%" in value):
            raise AnsibleParserError(f"{name}: a template is not evaluated in an inventory file. Give the value, "
                                     "encrypt it with ansible-vault, or set the environment variable of the option")


class HostsPlugin(BaseInventoryPlugin, Constructable, Cacheable):
    """Base of the inventory plugins. Each has the endings of its files and its hosts."""

    ENDINGS: t.ClassVar[tuple[str, ...]] = ()

    def hosts(self) -> list[Host]:
        """Read the hosts. May raise any of KNOWN_ERRORS."""
        raise NotImplementedError

    def verify_file(self, path: str) -> bool:
        """Return whether a file is for this plugin, by its name."""
        base: t.Any = super()
        return bool(base.verify_file(path)) and path.endswith(self.ENDINGS)

    def parse(self, inventory: t.Any, loader: t.Any, path: str, cache: bool = True) -> None:
        """Fill the inventory, from the cache if allowed."""
        super().parse(inventory, loader, path, cache=cache)
        me: t.Any = self
        unset_blank(me.option_definitions)
        given = self._read(path)
        self._refuse_unknown(given)
        refuse_templates(given)
        self.load_cache_plugin()
        plain = Plain()
        for host in _handed_over(self._asked_or_cached(self.get_cache_key(path), cache)):
            self._add(inventory, host, plain)

    def _read(self, path: str) -> Mapping[str, t.Any]:
        """Read the file and the options' variables.

        Raise AnsibleParserError, which names a wrong variable.
        """
        me: t.Any = self
        try:
            with texts_of_mappings(me.option_definitions) as texts:
                found = t.cast(Mapping[str, t.Any], me._read_config_data(path))
            for name in texts.keys() - found.keys():
                me.set_option(name, check_type_dict(texts[name]))
            return found
        except (AnsibleError, ValueError, TypeError):
            given = me.loader.load_from_file(path, cache="none") or {}
            if words := problem(_as_arguments(me.option_definitions), given):
                raise AnsibleParserError(words) from None
            raise

    def _refuse_unknown(self, given: Mapping[str, t.Any]) -> None:
        """Refuse unknown options, which Ansible would ignore."""
        me: t.Any = self
        known = set(me.option_definitions)
        for name in sorted(set(given) - known):
            close = difflib.get_close_matches(name, known, 1)
            hint = f"Did you mean {close[0]}?" if close else f"Allowed are {', '.join(sorted(known))}"
            raise AnsibleParserError(f"{name}: is not an option of this plugin. {hint}")

    def option(self, name: str) -> t.Any:
        """Return the value of an option."""
        me: t.Any = self
        return me.get_option(name)

    def _asked_or_cached(self, key: str, cache: bool) -> list[Host]:
        enabled = bool(self.option("cache"))
        if enabled and cache and key in self._cache:
            return [Host(**entry) for entry in self._cache[key]]
        try:
            found = self.hosts()
        except KNOWN_ERRORS as error:
            raise AnsibleParserError(str(error)) from None
        if enabled:
            self._cache[key] = [{"name": h.name, "variables": h.variables, "groups": h.groups} for h in found]
        return found

    def _add(self, inventory: t.Any, host: Host, plain: Plain) -> None:
        """Put a host into the inventory.

        Set variables directly on the host. InventoryData.set_variable would mark every text in them
        with its origin, which takes seconds and hundreds of MiB for a large fabric. Texts that are
        not trusted are no templates.
        """
        inventory.add_host(host.name)
        entry = inventory.get_host(host.name)
        marked = Host(host.name, {name: plain.copy(value) for name, value in host.variables.items()}, host.groups)
        for name, value in marked.variables.items():
            entry.set_variable(name, value)
        for name in host.groups:
            if name not in inventory.groups:
                inventory.add_group(name)
            inventory.add_child(name, host.name)
        self._construct(marked)

    def _construct(self, host: Host) -> None:
        """Add the user's own variables and groups."""
        me: t.Any = self
        strict, compose = self.option("strict"), self.option("compose")
        if compose:
            me._set_composite_vars(compose, host.variables, host.name, strict=strict)
        if groups := self.option("groups"):
            me._add_host_to_composed_groups(groups, host.variables, host.name, strict=strict,
                                            fetch_hostvars=bool(compose))
        if keyed := self.option("keyed_groups"):
            me._add_host_to_keyed_groups(keyed, host.variables, host.name, strict=strict,
                                         fetch_hostvars=bool(compose))

    def _compose(self, template: str, variables: Json, *args: t.Any, **more: t.Any) -> t.Any:
        """Return the value of an expression.

        Skip the slow template if the expression is only the name of a variable.
        """
        if template in variables and not self.option("use_extra_vars"):
            return variables[template]
        base: t.Any = super()
        return base._compose(template, variables, *args, **more)


def _handed_over(hosts: list[Host]) -> Iterator[Host]:
    """Yield the hosts and drop each one, so that a large fabric is not in memory twice."""
    hosts.reverse()
    while hosts:
        yield hosts.pop()


def group(prefix: str, what: object) -> str:
    """Return the name of a group in the letters that Ansible accepts."""
    return t.cast(str, to_safe_group_name(f"{prefix}_{what}", force=True, silent=True)).lower()


def options(plugin: HostsPlugin, names: Iterable[str]) -> Mapping[str, t.Any]:
    """Return the values of options as a mapping, like the parameters of modules."""
    return {name: plugin.option(name) for name in names}
