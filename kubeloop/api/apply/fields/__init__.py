# SPDX-License-Identifier: Apache-2.0
"""FieldsV1 sets and managedFields entries.

path_elements ──▶ fieldset (trees and their algebra) ──▶ compare (changed and removed fields)
managed_fields_entries ──▶ field_owners.update_field_owners: the entries after a write
"""
