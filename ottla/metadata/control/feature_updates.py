"""UpdateFeatures: all the levels of a request, or none. Called by the controller."""

from __future__ import annotations

from ottla.errors import KafkaError
from ottla.machine import Result
from ottla.metadata.control.brokers import BrokerControl
from ottla.metadata.control.configs import ConfigControl
from ottla.metadata.control.features import FeatureControl
from ottla.metadata.levels import ELR_VERSION
from ottla.wire.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

# Versions 0 and 1 answer for each feature; what Kafka writes as the message of no error is its name.
_VERSION_WITH_RESULTS_LAST = 1
_NO_ERROR = "NONE"


class FeatureUpdates:
    """Decisions about whole requests."""

    def __init__(self, features: FeatureControl, configs: ConfigControl, brokers: BrokerControl) -> None:
        self._features = features
        self._configs = configs
        self._brokers = brokers

    def update(
        self, request: UpdateFeaturesRequest, *, version: int, kraft_version: int
    ) -> Result[UpdateFeaturesResponse]:
        try:
            records = self._features.update(
                request.feature_updates,
                brokers=self._brokers.brokers.values(),
                controllers=self._brokers.controllers.values(),
                kraft_version=kraft_version,
            )
        except KafkaError as error:
            message = "The update failed for all features since the following feature had an error: " + error.message
            return Result(UpdateFeaturesResponse(error_code=error.code, error_message=message))
        response = UpdateFeaturesResponse(error_code=0, error_message=None)
        if version <= _VERSION_WITH_RESULTS_LAST:
            response.results = [
                UpdatableFeatureResult(update.feature, 0, _NO_ERROR) for update in request.feature_updates
            ]
        if request.validate_only:
            return Result(response)
        if any(update.feature == ELR_VERSION and update.max_version_level > 0 for update in request.feature_updates):
            records = [*self._configs.elr_safety_records(), *records]
        return Result(response, records)
