"""One file for each primitive, named after it (getters and samplers share one each)."""
