"""A sailing club's handbook: 40 chunks, questions with their evidence, and vectors that need no model."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CHUNKS", "QUESTIONS", "vector", "vectors"]

DIMENSIONS: Final = 48

CHUNKS: Final = {
    "mooring-fee": "The annual mooring fee for a keelboat under nine metres is 640 euros, payable before 15 March.",
    "mooring-swing": "Swing moorings in the outer bay are inspected by divers every second autumn.",
    "mooring-visitor": "Visitors tie up at the red buoys and pay 22 euros a night at the harbour office.",
    "dinghy-park": "Dinghies are parked on the grass behind the boathouse, masts stepped, covers tied down.",
    "dinghy-hire": "Members hire a club dinghy for 12 euros an hour; the deposit is 50 euros.",
    "crane-dates": "The crane lifts boats on the first two Saturdays of April and the last one of October.",
    "crane-limit": "The crane carries up to 4.5 tonnes; heavier yachts use the shipyard at Altmar.",
    "winter-storage": "Winter storage in the shed costs 31 euros per square metre and ends on 30 April.",
    "shed-fire": "No gas bottles, fuel or flares may be left on boats that are stored in the shed.",
    "youth-training": "Youth training is on Wednesday afternoons from May to September, life jackets are lent.",
    "youth-age": "Children may join the Optimist group from the age of seven if they swim 50 metres.",
    "race-wednesday": "The Wednesday evening race starts at 18:30 at the committee boat off the pier.",
    "race-protest": "A protest must be handed in at the race office within 60 minutes of the last finish.",
    "race-handicap": "Handicaps follow the Yardstick table; the sailing committee revises them each January.",
    "regatta-autumn": "The autumn regatta has three races on Saturday and a long-distance race on Sunday.",
    "clubhouse-hours": "The clubhouse bar opens at 17:00 on weekdays and at 11:00 at weekends.",
    "clubhouse-hire": "Members hire the clubhouse hall for private parties at 180 euros an evening.",
    "kitchen": "Whoever uses the kitchen cleans the stove and takes the rubbish to the container.",
    "keys": "A lost gate key costs 25 euros and is reported to the steward on the same day.",
    "guests": "A guest may sail three times a season, then an application for membership is expected.",
    "membership-fee": "Full membership costs 290 euros a year, students and trainees pay 95 euros.",
    "membership-end": "Membership ends on 31 December if notice was given in writing by 30 September.",
    "work-hours": "Each adult member gives eight hours of work a year or pays 20 euros for each hour missed.",
    "voting": "The general meeting votes in February; proposals reach the board four weeks before.",
    "insurance": "Every boat in the harbour needs third-party insurance of at least three million euros.",
    "insurance-proof": "Proof of insurance is shown to the harbour master when the boat is launched.",
    "vhf": "The club listens on channel 72; the rescue boat answers on channel 16 as well.",
    "rescue-boat": "Only holders of the coastal licence may drive the rescue boat, with one helper on board.",
    "storm": "From a storm warning on, no boat leaves the harbour until the cone on the mast is lowered.",
    "night": "Sailing after sunset needs navigation lights and a note in the log book at the pier.",
    "log-book": "Skippers sign out in the log book and sign in when they are back.",
    "fuel": "Petrol and diesel are sold at the floating pontoon on Fridays between 16:00 and 19:00.",
    "pump-out": "Holding tanks are emptied at the pump-out station beside the slipway, free for members.",
    "slipway": "The slipway is closed to trailers during races; ask the steward for the chain.",
    "trailers": "Trailers stand in rows C and D with the name of the boat on the drawbar.",
    "dogs": "Dogs are kept on a lead on the pontoons and stay out of the clubhouse kitchen.",
    "paint": "Antifouling with copper is forbidden on the lake side of the harbour since 2022.",
    "sails-repair": "The sailmaker collects torn sails on the first Monday of the month at the boathouse.",
    "library": "Charts and pilots of the coast can be borrowed from the clubhouse library for two weeks.",
    "newsletter": "The newsletter comes out four times a year; notices are sent to the editor.",
}
QUESTIONS: Final = {  # question -> its evidence
    "What is the annual mooring fee for a keelboat under nine metres?": "mooring-fee",
    "How long after the last finish must a protest be handed in at the race office?": "race-protest",
    "What does winter storage in the shed cost per square metre?": "winter-storage",
    "Who may drive the rescue boat with a helper on board?": "rescue-boat",
    "How much third-party insurance does every boat in the harbour need?": "insurance",
    "When are petrol and diesel sold at the floating pontoon?": "fuel",
    "From what age may children join the Optimist group?": "youth-age",
    "Since when is antifouling with copper forbidden on the lake side?": "paint",
    "Where are holding tanks emptied for free beside the slipway?": "pump-out",
    "How much do members pay an hour to hire a club dinghy?": "dinghy-hire",
    "When does membership end if notice was given in writing?": "membership-end",
    "Where do visitors tie up and pay a night at the harbour office?": "mooring-visitor",
}
_STOPS: Final = frozenset(
    "a an and are as at be by do does for from how if in is it may much must of off on or per since than that the then "
    "to up what when where who with".split()
)


def vector(text: str) -> NDArray[np.float32]:
    """A unit vector of a text's words, each in a dimension by its checksum: `(48,)`."""
    found = np.zeros(DIMENSIONS, dtype=np.float32)
    for word in re.findall(r"[a-z0-9.]+", text.lower()):
        if word not in _STOPS:
            found[zlib.crc32(word.encode()) % DIMENSIONS] += 1.0
    return found / (float(np.linalg.norm(found)) or 1.0)


def vectors() -> NDArray[np.float32]:
    """Those of all chunks: `(40, 48)`."""
    return np.stack([vector(text) for text in CHUNKS.values()])
