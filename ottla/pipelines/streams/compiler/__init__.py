"""From a plan to DataFrames: what each step of a topology is in Spark's own operators."""
