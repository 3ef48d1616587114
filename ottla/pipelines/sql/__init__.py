"""SQL on topics: streams, tables and continuous queries, in ksqlDB's statements and Spark's expressions.

`parser` reads statements, `catalog` keeps what they create, `planner` makes topologies of continuous queries, `engine`
carries statements out. Importing this imports no Spark. Called by `ottla sql`.
"""
