# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for Galaxy that offers one archive: as much of its API, version 3, as an installation reads."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tarfile
import threading
import typing as t
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

Json = dict[str, t.Any]


@contextlib.contextmanager
def serving(archive: Path, others: dict[str, str]) -> Iterator[str]:
    """Offer the archive, and the versions of `others`, which are installed already. Yield the address."""
    pages = pages_of(archive, others)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0].rstrip("/"))
            body = page if isinstance(page, bytes) else json.dumps(page).encode()
            self.send_response(404 if page is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_unused: object) -> None:
            """Keep the output of the tests short."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        pages["/archive.tar.gz"] = archive.read_bytes()
        for page in pages.values():
            if isinstance(page, dict) and "download_url" in page:
                page["download_url"] = f"{address}/archive.tar.gz"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"{address}/api/"
        server.shutdown()


def pages_of(archive: Path, others: dict[str, str]) -> dict[str, t.Any]:
    """Return what the API has at each path."""
    pages: dict[str, t.Any] = {"/api": {"available_versions": {"v3": "v3/"}}}
    with tarfile.open(archive) as opened:
        manifest = opened.extractfile("MANIFEST.json")
        assert manifest is not None
        info = json.load(manifest)["collection_info"]
    ours = f"{info['namespace']}.{info['name']}"
    for name, version in {**others, ours: info["version"]}.items():
        namespace, _dot, short = name.partition(".")
        path = f"/api/v3/collections/{namespace}/{short}"
        versions = [{"version": version, "href": f"{path}/versions/{version}/"}]
        pages[path] = {"created_at": "2026-01-01", "updated_at": "2026-01-01"}
        pages[f"{path}/versions"] = {"data": versions, "meta": {"count": 1}, "links": {"next": None}}
        pages[f"{path}/versions/{version}"] = {
            "namespace": {"name": namespace}, "collection": {"name": short}, "version": version,
            "download_url": "", "signatures": [], "href": f"{path}/versions/{version}/",
            "artifact": {"sha256": hashlib.sha256(archive.read_bytes()).hexdigest()},
            "metadata": {"dependencies": info["dependencies"] if name == ours else {}}}
    return pages
