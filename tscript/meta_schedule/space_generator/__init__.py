"""Space generator."""

from tscript.meta_schedule.space_generator.space_generator import PySpaceGenerator, SpaceGenerator

__all__ = ["PySpaceGenerator", "SpaceGenerator"]
