# SPDX-License-Identifier: Apache-2.0
"""Parts of the documentation site that are made while it is built, and its pictures.

`hooks.py` is loaded by MkDocs (mkdocs.yml): it adds the documents outside docs/, inserts the reference of the commands
(`commands.py`) and the list of decisions. `diagrams.py` and `terminal.py` draw the committed SVG files.
"""
