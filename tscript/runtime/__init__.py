"""Arrays, devices, built modules and how they are called and timed."""
