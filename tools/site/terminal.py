# SPDX-License-Identifier: Apache-2.0
"""Draws a recorded terminal session as an animated SVG: `python -m tools.site.terminal`.

docs/diagrams/*.txt holds the sessions: commands begin with `$ `, and all other lines are output. A command appears
first, its output a moment later; the last picture stays. Where animations are off, everything is shown at once.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "diagrams"
_WIDTH, _LINE, _TOP, _LEFT = 760, 19, 52, 20
_COMMAND_SECONDS, _OUTPUT_SECONDS = 0.9, 0.5
_STYLE = """text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#cfd8dc;white-space:pre}
.command{fill:#fff;font-weight:600}.prompt{fill:#82b1ff}.title{fill:#90a4ae}
.line{animation:show .01s both}@keyframes show{from{opacity:0}to{opacity:1}}
@media (prefers-reduced-motion:reduce){.line{animation:none}}"""


def draw(name: str, session: str) -> str:
    """Return the picture of a session."""
    lines = session.rstrip("\n").split("\n")
    height = _TOP + _LINE * len(lines) + 14
    drawn, moment = [], 0.3
    for number, line in enumerate(lines):
        is_command = line.startswith("$ ")
        after_command = number > 0 and lines[number - 1].startswith("$ ")
        moment += _COMMAND_SECONDS if is_command and number else _OUTPUT_SECONDS if after_command else 0.0
        if line:
            drawn.append(_text(line, _TOP + _LINE * number, moment, is_command))
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
            f"<title>{escape(name)}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect width="{_WIDTH}" height="{height}" rx="8" fill="#1e272e"/>',
            *(
                f'<circle cx="{_LEFT + 18 * place}" cy="20" r="6" fill="{colour}"/>'
                for place, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
            ),
            f'<text class="title" x="{_WIDTH // 2}" y="24" text-anchor="middle">{escape(name)}</text>',
            *drawn,
            "</svg>\n",
        )
    )


def _text(line: str, y: int, moment: float, is_command: bool) -> str:
    content = escape(line, quote=False)
    if is_command:
        content = f'<tspan class="prompt">$</tspan> <tspan class="command">{escape(line[2:], quote=False)}</tspan>'
    style = f'style="animation-delay:{moment:.1f}s"'
    return f'<text class="line" {style} x="{_LEFT}" y="{y}" xml:space="preserve">{content}</text>'


def main() -> int:
    """Draw all sessions."""
    for source in sorted(FOLDER.glob("*.txt")):
        source.with_suffix(".svg").write_text(draw("kubeloop", source.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
