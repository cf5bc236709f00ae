"""Learning curves with the verdict that people give on sight. Written before any verdict on them was computed.

What the labels mean. `learned`: at the target at the end, up to what its scores can tell and single bad evaluations;
without a target, flat and close to the best comparable run. `still rising`: below the target and clearly higher at the
end than in the middle. `plateaued`: clearly better than the untrained policy, but flat for a large part of the run,
below the target or without anything to compare with. `never learned`: no rise that lasts, or one that is negligible on
the way to the target. `collapsed`: a clear rise, more than half of which is lost at the end.

Every second curve of each label is for setting thresholds (`TUNING`), the others are for scoring only (`SCORING`).
Short curves are written out; long ones are straight lines between points (share of the run, score) with normal noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np


@dataclass(frozen=True)
class LabelledCurve:
    """Scores along a run and what people say about it. `ci` is the half-width of the 95 % interval of each score."""

    label: str
    name: str
    scores: Sequence[float]
    why: str
    target: float | None = None
    best_other: float | None = None
    untrained: float | None = None
    ci: float | None = None
    status: str = "done"


def drawn(
    points: Sequence[tuple[float, float]], n: int, noise: float, seed: int, low: float = -1e9, high: float = 1e9
) -> list[float]:
    """Return n scores on the lines between points, with normal noise, within the range of possible returns."""
    x, y = zip(*points, strict=True)
    line = np.interp(np.linspace(0, 1, n), x, y)
    return [float(v) for v in np.clip(line + np.random.default_rng(seed).normal(0, noise, n), low, high).round(3)]


LEARNED = [
    LabelledCurve("learned", "cartpole quick", [22, 95, 260, 430, 500, 500, 500, 500, 500, 500],
                  "solved from the middle on", target=475),
    LabelledCurve("learned", "cartpole, small dips at the end",
                  [21, 48, 130, 240, 390, 455, 480, 500, 472, 500, 488, 500, 466, 500, 495],
                  "varies around 490, above 475", target=475),
    LabelledCurve("learned", "cartpole, one late dip", [24, 70, 210, 420, 490, 500, 500, 500, 500, 312, 500, 500],
                  "one bad evaluation, perfect before and after", target=475),
    LabelledCurve("learned", "cartpole, dip in the last score",
                  [24, 80, 190, 350, 480, 500, 500, 500, 500, 500, 500, 500, 500, 500, 410],
                  "nine perfect scores; one dip is no collapse", target=475),
    LabelledCurve("learned", "pendulum, at the best run",
                  [-1220, -1150, -900, -560, -310, -190, -170, -165, -172, -158, -168, -161],
                  "flat within noise of the best run", best_other=-155),
    LabelledCurve("learned", "lander", [-190, -120, -60, 10, 40, 90, 140, 180, 215, 230, 225, 240, 210, 235],
                  "above 200 for the last third", target=200),
    LabelledCurve("learned", "frozen lake", [0.01, 0.02, 0.0, 0.05, 0.2, 0.45, 0.62, 0.71, 0.74, 0.73, 0.72, 0.75],
                  "slow start, then above the target", target=0.7),
    LabelledCurve("learned", "at the target within its interval", [20, 150, 320, 440, 468, 470, 466, 471],
                  "its intervals of ±12 contain the target", target=475, ci=12),
    LabelledCurve("learned", "mountain car, late discovery",
                  [-200, -200, -200, -200, -200, -200, -190, -160, -130, -115, -108, -105, -104, -106],
                  "found the goal late and solved it", target=-110),
    LabelledCurve("learned", "hopper, long and noisy",
                  drawn([(0, 20), (0.3, 1500), (0.6, 3600), (1, 4100)], 200, 250, 1),
                  "well above 3800 at the end, still improving or not", target=3800),
    LabelledCurve("learned", "first score is already good", [430, 480, 500, 500, 500, 500],
                  "most of the learning was before the first score", target=475, untrained=22),
    LabelledCurve("learned", "acrobot", [-500, -480, -300, -150, -110, -95, -88, -86, -90, -85],
                  "better than -100 for half of the run", target=-100),
    LabelledCurve("learned", "robot, as good as the best", [3.1, 5, 9, 14, 18, 19.5, 20.1, 19.8, 20.3, 20],
                  "flat, 97 % of the best run", best_other=20.5),
    LabelledCurve("learned", "pong, 60 evaluations",
                  drawn([(0, -20.5), (0.15, -20), (0.5, 17), (0.65, 20), (1, 20)], 60, 0.5, 2, -21, 21),
                  "near the maximum of 21, as the best run", best_other=20.4),
    LabelledCurve("learned", "large returns", [12e3, 90e3, 310e3, 520e3, 640e3, 660e3, 655e3, 668e3, 661e3, 664e3],
                  "flat, as good as the best run", best_other=670e3),
    LabelledCurve("learned", "close to the best, noisy",
                  drawn([(0, 120), (0.5, 950), (1, 955)], 40, 25, 3),
                  "flat since the middle at 95 % of the best run", best_other=1000),
    LabelledCurve("learned", "cartpole training returns",
                  drawn([(0, 20), (0.25, 300), (0.4, 500), (1, 505)], 120, 20, 4, 9, 500),
                  "training returns close to the maximum", target=475),
    LabelledCurve("learned", "lander, wide noise at the end",
                  [-250, -110, -30, 80, 160, 230, 180, 260, 205, 245, 170, 255, 220, 195, 250, 215],
                  "mean of the last half 216, above 200", target=200),
]  # fmt: skip

STILL_RISING = [
    LabelledCurve("still rising", "few scores of a large rollout", [46, 88, 185, 193, 284, 292, 193, 386],
                  "eight times its start, best score last", target=475),
    LabelledCurve("still rising", "straight line", drawn([(0, 20), (1, 300)], 40, 15, 5),
                  "rises from the first score to the last", target=475),
    LabelledCurve("still rising", "five scores", [22, 41, 83, 160, 290],
                  "nearly doubles with each score", target=475),
    LabelledCurve("still rising", "pendulum, slow",
                  [-1410, -1380, -1290, -1310, -1180, -1100, -1060, -980, -900, -870, -760, -690],
                  "halved its cost, no end in sight"),
    LabelledCurve("still rising", "sparse reward, late start",
                  [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.02, 0.05, 0.1, 0.18, 0.27, 0.35, 0.44, 0.52],
                  "zero for half of the run, then steady progress"),
    LabelledCurve("still rising", "cheetah", drawn([(0, -300), (0.3, 800), (0.6, 1500), (1, 2400)], 100, 150, 6),
                  "gains 900 in the last 40 %", target=4800),
    LabelledCurve("still rising", "lander, noisy", drawn([(0, -300), (1, 100)], 30, 45, 7),
                  "the climb of 400 is much larger than the noise", target=200),
    LabelledCurve("still rising", "from 50 to 261", [50, 62, 95, 110, 150, 141, 196, 219, 261],
                  "five times its start, best score last", target=475),
    LabelledCurve("still rising", "late take-off", [20, 21, 19, 22, 24, 23, 25, 30, 38, 55, 80, 120, 170],
                  "has just begun to learn", target=475),
    LabelledCurve("still rising", "intervals known", [21, 30, 44, 71, 90, 130],
                  "each score is outside the interval of the one before", target=475, ci=8),
    LabelledCurve("still rising", "large returns, linear", [2000, 9000, 17000, 30000, 38000, 52000, 61000],
                  "a straight line upwards"),
    LabelledCurve("still rising", "training returns, heavy noise", drawn([(0, 20), (1, 250)], 200, 45, 8, 8),
                  "the mean rises all along", target=475),
    LabelledCurve("still rising", "second take-off",
                  [20, 60, 100, 110, 108, 112, 109, 115, 140, 180, 220, 260],
                  "left a plateau and has been rising since", target=475),
    LabelledCurve("still rising", "tiny returns",
                  [0.0010, 0.0014, 0.0019, 0.0022, 0.0029, 0.0033, 0.0041, 0.0046],
                  "rises with every score; the unit does not matter"),
    LabelledCurve("still rising", "dip in the last score", [30, 70, 120, 160, 210, 260, 310, 350, 390, 330],
                  "one score below the line is no plateau and no collapse", target=475),
    LabelledCurve("still rising", "below the best run",
                  [100, 160, 230, 270, 350, 400, 480, 520, 590, 640, 720, 760],
                  "rising steadily, the best run is at 1500", best_other=1500),
    LabelledCurve("still rising", "walker, 80 noisy scores",
                  drawn([(0, 10), (0.4, 400), (1, 1500)], 80, 130, 9), "faster in the second half"),
    LabelledCurve("still rising", "stairs", [20, 22, 21, 75, 78, 74, 130, 133, 128, 190, 195, 192, 251, 255],
                  "rises in steps, the last one just now", target=475),
]  # fmt: skip

PLATEAUED = [
    LabelledCurve("plateaued", "flat at 200", drawn([(0, 20), (0.33, 200), (1, 202)], 40, 10, 10),
                  "flat for two thirds, below the target", target=475),
    LabelledCurve("plateaued", "lander hovers", [-200, -150, -80, -20, 5, 15, 25, 10, 22, 18, 27, 15, 20, 24],
                  "flat at 20 of 200", target=200),
    LabelledCurve("plateaued", "pendulum, half solved",
                  [-1230, -1100, -960, -810, -720, -690, -705, -710, -695, -700, -708, -698],
                  "flat far below the best run", best_other=-160),
    LabelledCurve("plateaued", "noisy plateau", drawn([(0, 20), (0.3, 250), (1, 250)], 60, 45, 11),
                  "varies around 250 without a trend", target=475),
    LabelledCurve("plateaued", "intervals known, flat", [20, 80, 140, 170, 182, 178, 185, 180, 183, 181],
                  "flat within its intervals, far below the target", target=475, ci=8),
    LabelledCurve("plateaued", "slow decline",
                  [22, 90, 180, 260, 300, 310, 305, 300, 290, 295, 280, 270, 262, 255, 250],
                  "lost a fifth of its rise, not half; not improving", target=475),
    LabelledCurve("plateaued", "hopper stands still",
                  drawn([(0, 20), (0.15, 950), (1, 1000)], 200, 110, 12),
                  "the local optimum of standing, flat for most of the run", target=3800),
    LabelledCurve("plateaued", "nothing to compare with", [5, 7, 10, 12.5, 13.6, 14.1, 13.9, 14.2, 14, 14.1],
                  "learned something and is flat; how good that is cannot be said"),
    LabelledCurve("plateaued", "frozen lake at 0.3",
                  [0.02, 0.08, 0.15, 0.24, 0.3, 0.31, 0.28, 0.32, 0.29, 0.3, 0.31, 0.3],
                  "flat below half of the target", target=0.7),
    LabelledCurve("plateaued", "saw teeth",
                  [25, 80, 150, 240, 160, 245, 155, 250, 170, 235, 150, 248, 165, 240, 158, 246, 160, 242, 168, 238],
                  "swings between 150 and 250 without a trend", target=475),
    LabelledCurve("plateaued", "jump, then flat", [20, 180, 185, 178, 190, 182, 186, 181, 184, 179],
                  "all of the rise before the second score", target=475),
    LabelledCurve("plateaued", "acrobot at -250",
                  drawn([(0, -500), (0.4, -250), (1, -250)], 25, 12, 13),
                  "flat for more than half of the run", target=-100),
    LabelledCurve("plateaued", "large returns, flat",
                  [100e3, 280e3, 450e3, 560e3, 600e3, 605e3, 598e3, 603e3, 601e3, 604e3],
                  "flat at 60 % of the best run", best_other=1e6),
    LabelledCurve("plateaued", "cheetah on its back",
                  drawn([(0, -250), (0.35, 1500), (1, 1520)], 100, 90, 14),
                  "flat at half of the best run", target=4800, best_other=3000),
    LabelledCurve("plateaued", "the best run is no better", [20, 45, 80, 105, 118, 121, 119, 122, 120, 121],
                  "as good as the best run, which did not come near the target", target=475, best_other=125),
    LabelledCurve("plateaued", "pong at -5",
                  drawn([(0, -20.5), (0.5, -5), (1, -5)], 50, 1.2, 15, -21, 21),
                  "flat for half of the run; the best run is at 18", best_other=18),
    LabelledCurve("plateaued", "training returns, 150 rows",
                  drawn([(0, 22), (0.2, 140), (1, 145)], 150, 30, 16, 8), "flat since the first fifth", target=475),
    LabelledCurve("plateaued", "lucky score on a plateau",
                  [20, 60, 110, 150, 152, 149, 151, 290, 150, 153, 148, 152, 150, 151],
                  "one high score changes nothing", target=475),
]  # fmt: skip

NEVER_LEARNED = [
    LabelledCurve("never learned", "flat at 22", drawn([(0, 22), (1, 22)], 20, 3, 17), "noise around the start",
                  target=475),
    LabelledCurve("never learned", "one lucky spike",
                  [21, 19, 22, 20, 18, 140, 21, 20, 23, 19, 22, 20, 21, 18, 20], "one score of fifteen is high",
                  target=475),
    LabelledCurve("never learned", "pendulum, noisy", drawn([(0, -1250), (1, -1240)], 30, 110, 18),
                  "noise around the untrained policy's cost"),
    LabelledCurve("never learned", "all zeros", [0.0] * 30, "never found the reward"),
    LabelledCurve("never learned", "worse from the start", [24, 22, 18, 14, 11, 10, 9.6, 9.4, 9.3, 9.4],
                  "fell to the worst possible policy without ever rising", target=475),
    LabelledCurve("never learned", "mountain car", [-200.0] * 40, "never reached the goal", target=-110),
    LabelledCurve("never learned", "lander crashes harder",
                  [-180, -210, -160, -300, -420, -380, -510, -560, -490, -610, -580, -620],
                  "falls well below the untrained policy", target=200),
    LabelledCurve("never learned", "cheetah, noise only", drawn([(0, -280), (1, -260)], 100, 120, 19),
                  "a hundred scores, no trend to speak of", target=4800),
    LabelledCurve("never learned", "precise but negligible", [20.1, 20.6, 21.0, 21.5, 22.0, 22.4, 22.9, 23.1],
                  "the rise is real, but 1 % of the way to the target", target=475, ci=0.3),
    LabelledCurve("never learned", "five scores", [21, 25, 19, 23, 22], "no difference between first and last",
                  target=475),
    LabelledCurve("never learned", "rare successes",
                  [0, 0, 0.02, 0, 0, 0.01, 0, 0, 0.02, 0, 0, 0, 0.01, 0, 0, 0.02, 0, 0],
                  "chance successes, as many at the start as at the end", target=0.7),
    LabelledCurve("never learned", "training returns, 200 rows", drawn([(0, 21), (1, 22)], 200, 6, 20, 8),
                  "noise around the start", target=475),
    LabelledCurve("never learned", "within its intervals", [30, 24, 35, 28, 33, 26, 31, 38],
                  "no score is outside the others' intervals of ±9", target=475, ci=9),
    LabelledCurve("never learned", "pong at the minimum", drawn([(0, -20.5), (1, -20.4)], 25, 0.25, 21, -21, 21),
                  "loses every point", best_other=18),
    LabelledCurve("never learned", "two lucky scores",
                  [0, 0, 0, 0.05, 0, 0, 0, 0, 0.1, 0, 0, 0], "chance successes that did not last"),
    LabelledCurve("never learned", "pendulum, eight scores",
                  [-1180, -1240, -1100, -1320, -1210, -1150, -1260, -1230], "no difference between first and last"),
    LabelledCurve("never learned", "bad first score",
                  [-1700, -1220, -1240, -1190, -1260, -1210, -1230, -1250, -1200, -1220],
                  "only the first score was low; the untrained policy has -1230", untrained=-1230),
    LabelledCurve("never learned", "slow drift below the noise",
                  drawn([(0, -200), (1, -206)], 50, 40, 22), "noise, no rise", target=200),
]  # fmt: skip

COLLAPSED = [
    LabelledCurve("collapsed", "cartpole, up and down", [20, 90, 200, 350, 420, 300, 120, 40, 25, 22, 24, 21],
                  "back at the untrained policy's score", target=475),
    LabelledCurve("collapsed", "hopper, long",
                  drawn([(0, 20), (0.6, 3000), (0.7, 400), (1, 300)], 200, 130, 23), "lost 2700 of 3000",
                  target=3800),
    LabelledCurve("collapsed", "pendulum", [-1200, -800, -400, -250, -200, -600, -1100, -1300, -1350, -1400],
                  "ends below its start"),
    LabelledCurve("collapsed", "still falling", [22, 60, 150, 280, 400, 450, 460, 200, 120, 90],
                  "has lost four fifths of its rise", target=475),
    LabelledCurve("collapsed", "at the very end",
                  [*drawn([(0, 20), (0.4, 490), (1, 490)], 36, 8, 24, 9, 500), 60, 10, 9, 9],
                  "perfect for half of the run, the last four scores are at the minimum", target=475),
    LabelledCurve("collapsed", "after solving", [20, 100, 300, 480, 500, 500, 500, 90, 30, 12, 9, 9],
                  "solved, then lost everything", target=475),
    LabelledCurve("collapsed", "lander", [-190, -90, 20, 110, 150, 140, 30, -120, -260, -330, -400, -380],
                  "ends far below its start", target=200),
    LabelledCurve("collapsed", "learned before the first score", [200, 240, 180, 90, 40, 20, 15, 12],
                  "ten times the untrained policy at first, now below it", target=475, untrained=22),
    LabelledCurve("collapsed", "intervals known", [21, 120, 240, 300, 310, 180, 90, 60, 55, 50],
                  "lost nine tenths of its rise", target=475, ci=15),
    LabelledCurve("collapsed", "success rate", [0, 0.1, 0.4, 0.7, 0.8, 0.6, 0.2, 0.05, 0.02, 0.0, 0.01],
                  "from 0.8 to nothing"),
    LabelledCurve("collapsed", "slow decay",
                  drawn([(0, 20), (0.3, 300), (1, 40)], 100, 20, 25), "lost nearly all of its rise over 70 rows",
                  target=475),
    LabelledCurve("collapsed", "pong", drawn([(0, -20), (0.4, 5), (0.6, 6), (0.75, -19), (1, -20.5)], 40, 0.8, 26,
                                             -21, 21), "back to losing every point", best_other=18),
    LabelledCurve("collapsed", "with a weak recovery", [20, 150, 300, 400, 420, 410, 60, 40, 90, 110, 120],
                  "lost most of its rise; the recovery is a quarter of it", target=475),
    LabelledCurve("collapsed", "two peaks", [25, 180, 350, 90, 30, 120, 330, 400, 150, 40, 28, 25],
                  "lost everything twice", target=475),
    LabelledCurve("collapsed", "large returns", [3e3, 40e3, 120e3, 210e3, 260e3, 255e3, 140e3, 60e3, 22e3, 15e3],
                  "lost 95 % of its rise", best_other=300e3),
    LabelledCurve("collapsed", "training returns, 150 rows",
                  drawn([(0, 20), (0.5, 350), (0.6, 60), (1, 45)], 150, 25, 27, 8),
                  "from 350 to 50 within a tenth of the run", target=475),
]  # fmt: skip

OTHERS = [
    LabelledCurve("diverged", "after learning", [20, 80, 150, 200, 230, 240], "the run says that it diverged",
                  status="diverged", target=475),
    LabelledCurve("diverged", "at once", [], "the run says that it diverged", status="diverged"),
    LabelledCurve("too short to judge", "no score", [], "nothing to judge", target=475),
    LabelledCurve("too short to judge", "two scores", [20, 35], "two scores are no curve", target=475),
    LabelledCurve("too short to judge", "three scores", [-1200, -1100, -1150], "three scores are no curve"),
    LabelledCurve("too short to judge", "four scores", [12, 15, 11, 14], "four scores are no curve", target=475),
]  # fmt: skip

CURVES = [*LEARNED, *STILL_RISING, *PLATEAUED, *NEVER_LEARNED, *COLLAPSED, *OTHERS]
_PLACES = [place for _, curves in groupby(CURVES, lambda curve: curve.label) for place, _ in enumerate(curves)]
TUNING = [curve for curve, place in zip(CURVES, _PLACES, strict=True) if place % 2 == 0]
SCORING = [curve for curve, place in zip(CURVES, _PLACES, strict=True) if place % 2 == 1]
