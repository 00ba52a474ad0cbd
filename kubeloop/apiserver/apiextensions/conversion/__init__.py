# SPDX-License-Identifier: Apache-2.0
"""Conversion of custom objects between versions by webhooks.

reads, watch_hub ── prepare ──▶ cache.Conversions ──▶ review (ConversionReview) ──▶ webhook_client
serializer ◀── converted bytes ── cache; converter: conversion of one object, for admission
"""
