"""The release gate: may this candidate replace the baseline, in every stage and in every segment?"""

from __future__ import annotations
