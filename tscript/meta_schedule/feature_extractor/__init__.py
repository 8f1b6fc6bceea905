"""Feature extractor."""

from tscript.meta_schedule.feature_extractor.feature_extractor import FeatureExtractor, PyFeatureExtractor

__all__ = ["FeatureExtractor", "PyFeatureExtractor"]
