"""FieldsV1 sets and managedFields entries.

path_elements ──▶ fieldset (trees and their algebra) ──▶ compare (changed and removed fields)
managed_fields_entries ──▶ field_owners.track_update: the entries after a write
"""
