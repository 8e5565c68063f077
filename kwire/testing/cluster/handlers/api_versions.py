"""ApiVersions: what the release offers, and the features of the cluster (KIP-511, KIP-584).

A client that says which broker of which cluster it means is told if it has reached another one (KIP-1242).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kwire.testing.cluster.handlers import offered_by

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call

SOFTWARE_FROM = 3
NO_NODE_ID = -1
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", re.ASCII)


async def handle(request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
    """All APIs, in order of their keys."""
    if call.version >= SOFTWARE_FROM and not _is_sound(request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if not _is_meant(request, call):
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    if call.session.authentication is not None:
        call.session.authentication.versions_told()
    release = call.cluster.release
    ranges = offered_by(call.cluster)
    features = [
        (name, oldest, newest)
        for name, oldest, newest in release.features
        if oldest > 0 or call.version > SOFTWARE_FROM  # KIP-1106: version 3 has no word for a feature that starts at 0
    ]
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=versions.min_version, max_version=versions.max_version)
            for key, versions in ranges.items()
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=oldest, max_version=newest) for name, oldest, newest in features
        ],
        finalized_features_epoch=0,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=newest, min_version_level=newest)
            for name, _oldest, newest in release.features
        ],
    )


def _is_sound(request: ApiVersionsRequest) -> bool:
    names_both_or_neither = (request.cluster_id is None) == (request.node_id == NO_NODE_ID)
    software = (request.client_software_name, request.client_software_version)
    return names_both_or_neither and all(map(_SOFTWARE.fullmatch, software))


def _is_meant(request: ApiVersionsRequest, call: Call) -> bool:
    """A client that names neither cluster nor broker is not checked. Before version 5 none does."""
    meant, here = (request.cluster_id, request.node_id), (call.cluster.cluster_id, call.broker.node_id)
    return request.cluster_id is None or meant == here
