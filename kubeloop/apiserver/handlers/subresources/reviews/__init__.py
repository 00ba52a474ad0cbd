# SPDX-License-Identifier: Apache-2.0
"""Reviews that are computed per request: access reviews, rules reviews, token reviews and self subject reviews.

access_reviews ── access_review_validation ──▶ authorizer; identity_reviews ──▶ authenticator
"""
