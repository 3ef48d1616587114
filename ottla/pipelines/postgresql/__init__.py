"""PostgreSQL's wire protocol as far as change data capture needs it: connections, logical replication, types.

A client of our own, because in November 2026 no library is both small and able: `pg8000` (BSD) and `asyncpg`
(Apache-2.0) know no COPY BOTH, which replication is, and `psycopg` and `psycopg2` are LGPL.

    messages    frames and messages of the protocol, sans-io
    scram       SCRAM-SHA-256, sans-io
    connection  a socket, TLS, authentication, queries, COPY
    pgoutput    the messages of the output plugin pgoutput, sans-io
    types       PostgreSQL's types as Spark's, and values as JSON
    catalog     which tables there are, with their columns and keys
"""
