# SPDX-License-Identifier: Apache-2.0
"""Custom resources: serves the objects that CustomResourceDefinitions define.

CRD changes ─ controller ─┬─ naming_conditions: accepted names and conditions
                          ├─ resource:          one Resource per served version, with its validation rules
                          ├─ storage:           serializer, selectors and strategy of its objects
                          ├─ printer_columns:   its Table
                          └─ finalizer:         deletes the objects of a deleted CRD
app ◀── tables of resources, replaced as a whole
"""
