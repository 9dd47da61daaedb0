"""The build hook of the wheel: copies the folders that operators read into `ragtrace/_share/`.

Real wheels only. An editable install finds the folders in the checkout; a copy of them would go stale. The sdist
carries them where they stand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SHARED = ("metrics", "alerts", "dashboards", "migrations", "collectors", "docs/runbooks")


class SharedFolders(BuildHookInterface[BuilderConfig]):
    """Adds every file of the shared folders that version control does not ignore."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Fill `force_include`, which knows nothing of .gitignore: the exclusions are applied here."""
        if self.target_name != "wheel" or version != "standard":
            return
        for name in SHARED:
            for path in sorted((Path(self.root) / name).rglob("*")):
                relative = path.relative_to(self.root).as_posix()
                if path.is_file() and not self.build_config.path_is_excluded(relative):
                    build_data["force_include"][str(path)] = f"ragtrace/_share/{relative}"
