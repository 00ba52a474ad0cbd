# SPDX-License-Identifier: Apache-2.0
"""Runs the command line program as `python -m kubeloop`."""

import sys

from kubeloop.cli.main import main

sys.exit(main())
