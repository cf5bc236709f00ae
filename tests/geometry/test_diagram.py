import re
from xml.etree import ElementTree

import pytest

from rollshape.geometry.diagram import diagram_boxes, mermaid, svg, text
from rollshape.geometry.plan import Plan, plan

plans = pytest.mark.parametrize(
    "made",
    [
        plan(num_envs=64, num_steps=32, total_timesteps=500_000),
        plan(num_envs=10, num_steps=103, minibatch_size=64, on_remainder="warn"),
        plan(algo="rrd", total_timesteps=100_000),
    ],
    ids=["ppo", "remainder", "rrd"],
)


@plans
def test_every_drawing_shows_the_plans_numbers(made: Plan) -> None:
    for drawing in (text(made), mermaid(made), svg(made)):
        for box in diagram_boxes(made):
            assert box.number in drawing
            assert box.detail in drawing


@plans
def test_svg_is_well_formed_and_self_contained(made: Plan) -> None:
    picture = svg(made)
    root = ElementTree.fromstring(picture)
    boxes = root.findall("{http://www.w3.org/2000/svg}rect")
    assert len(boxes) == len(diagram_boxes(made))
    assert re.findall(r"https?://[^\"]+", picture) == ["http://www.w3.org/2000/svg"]


def test_the_numbers_are_right() -> None:
    numbers = [box.number for box in diagram_boxes(plan(num_envs=64, num_steps=32, total_timesteps=500_000))]
    assert numbers == ["N = 64", "2,048 samples", "4 × 512", "4", "16 gradient steps", "244 updates"]


def test_text_is_a_box_of_equal_width() -> None:
    lines = [line for line in text(plan(num_envs=64, num_steps=32)).splitlines() if line[0] in "┌│└"]
    assert len({len(line) for line in lines}) == 1
