"""Writes tests/vectors/wordsegment.jsonl: made-up hashtags, split by the WordSegment toolkit itself.

Needs `wordsegment==1.3.1`. Run from the repository root: python scripts/reference/wordsegment_vectors.py
"""

import json
import random
import sys
from importlib.metadata import version

from wordsegment import load, segment

EDGES = [
    "#", "", "_", "#a", "#I", "#1", "#2013", "#20131108", "#27.5", "#H1N1", "#COVID19", "#M7point6", "#Storm_2013",
    "#storm_surge_warning", "#__flood__", "#9News", "#7newsAlert", "#PM25levels", "#Level3Evacuation", "#I70closed",
    "#Hwy36", "#24hourshelter", "#911isdown", "#4x4needed", "#SR520bridge", "#Zone2A", "#1stResponders",
    "#the", "#thethethe", "#theTheTHE", "#isisis", "#ohohohoh", "#nowhere", "#therapist", "#expertsexchange",
    "#godisnowhere", "#choosespain", "#speedofart", "#twitteriscrawling",
    "#qqqq", "#xzqvkj", "#zzzzzzzzzzzz", "#wxyzwxyz", "#brbttylidk", "#nnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "#pneumonoultramicroscopicsilicovolcanoconiosis", "#antidisestablishmentarianism", "#supercalifragilistic",
    "#floccinaucinihilipilification", "#honorificabilitudinitatibus", "#" + "a" * 24, "#" + "a" * 25, "#" + "a" * 249,
    "#" + "a" * 250, "#" + "a" * 251, "#" + "q" * 300, "#" + "the" * 120, "#" + "0123456789" * 30,
    "#don't", "#it's-ok", "#fire/flood", "#a.b.c", "#ünïcode", "#Straße", "#ΠΥΡΚΑΓΙΑ", "#İstanbul", "#Kelvin\u212a",
    "# flood  help ", "#FLOOD#FIRE", "<s>", "#sflood", "#stormofthecentury", "#firefighter", "#fire", "#firefighters",
]
WORDS = (
    "flood fire storm quake rain wind river bridge road shelter rescue relief pray help donate water power outage "
    "evacuate update alert breaking news safe missing found volunteer food blood north south east west county city "
    "valley creek mountain coast island hospital school church airport train factory chemical spill gas leak smoke haze "
    "ash mud land slide snow ice heat wave the of for in our my we are all together strong one please stay home now "
    "2012 2013 2017 911 24 7 ca tx yyc ab co nsw ph qld usa uk ny"
).split()


def made_up():
    """Tags assembled from words, some with slips of the finger, a few of them very long."""
    dice = random.Random(20131108)
    for _ in range(130):
        words = [dice.choice(WORDS) for _ in range(dice.randint(1, 5))]
        tag = "".join(word.capitalize() if dice.random() < 0.5 else word for word in words)
        if dice.random() < 0.25:
            at = dice.randrange(len(tag))
            tag = tag[:at] + dice.choice("abcdefghijklmnopqrstuvwxyz0123456789_") + tag[at + 1:]
        yield "#" + tag
    for length in (60, 75, 90, 130, 170):
        yield "#" + "".join(dice.choice(WORDS) for _ in range(length))
    for length in (10, 23, 24, 25, 26, 40, 255, 501):
        yield "#" + "".join(dice.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(length))


def main():
    """Writes one line a tag: the tag and its words."""
    assert version("wordsegment") == "1.3.1", version("wordsegment")
    sys.setrecursionlimit(10_000)  # the toolkit recurses once a letter, and a chunk may have 250 and more
    load()
    with open("tests/vectors/wordsegment.jsonl", "w", encoding="utf-8") as out:
        for tag in [*EDGES, *made_up()]:
            out.write(json.dumps({"input": tag, "segments": segment(tag)}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
