"""What a cost model learns from: candidates as numbers."""

from tscript.meta_schedule.feature_extractor.feature_extractor import FeatureExtractor, PyFeatureExtractor
from tscript.meta_schedule.feature_extractor.per_store_feature import PerStoreFeature
from tscript.meta_schedule.feature_extractor.random_feature_extractor import RandomFeatureExtractor

FeatureExtractor.register_kind("per-store-feature", PerStoreFeature)

__all__ = ["FeatureExtractor", "PerStoreFeature", "PyFeatureExtractor", "RandomFeatureExtractor"]
