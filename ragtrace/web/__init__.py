"""Pages over the store, for people: where the evidence path broke, in which segment, since which release, and one
request with the sentence that was lost or altered.

Made by the server: they work without scripts, and load nothing from elsewhere.
"""

from __future__ import annotations

from ragtrace.web._access import Access, Everybody, People, Proxy
from ragtrace.web._app import make_app
from ragtrace.web._server import WebSettings, require, run, serving

__all__ = ["Access", "Everybody", "People", "Proxy", "WebSettings", "make_app", "require", "run", "serving"]
