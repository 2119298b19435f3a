"""Processes that measure: a worker holds one warm engine and decodes one leg at a time.

Workers never see the database; they get orders and give records, both frozen values (``messages``).
"""
