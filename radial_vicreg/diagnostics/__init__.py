"""Measure how Gaussian embeddings are: radii, spectrum, directions and random slices."""

from radial_vicreg.diagnostics.dimensions import dimension_statistics, lidar
from radial_vicreg.diagnostics.directions import mean_share, uniformity
from radial_vicreg.diagnostics.embeddings import RadiusMeasurement, measure_radii
from radial_vicreg.diagnostics.gaussianity import gaussianity_statistics, normal_statistics, standardise
from radial_vicreg.diagnostics.radii import radius_histogram, radius_statistics
from radial_vicreg.diagnostics.slices import epps_pulley, random_slices, wasserstein_to_normal
from radial_vicreg.diagnostics.spectrum import covariance_spectrum, effective_rank

__all__ = [
    "RadiusMeasurement",
    "covariance_spectrum",
    "dimension_statistics",
    "effective_rank",
    "epps_pulley",
    "gaussianity_statistics",
    "lidar",
    "mean_share",
    "measure_radii",
    "normal_statistics",
    "radius_histogram",
    "radius_statistics",
    "random_slices",
    "standardise",
    "uniformity",
    "wasserstein_to_normal",
]
