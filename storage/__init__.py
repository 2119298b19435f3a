"""What is kept, and how nothing is lost: one SQLite file for Optuna's study and our tables, payloads beside it.

Knows nothing of engines, workers or figures. The driver is the only writer; readers never write.

Reading order: ``database`` (opening), ``schema`` (tables), ``legs`` (what was decoded), ``trials`` (what was asked
and told), ``readings`` (what a status needs).
"""
