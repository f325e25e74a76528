"""All sections of the harness by name."""

from torture import (
    byzantine,
    calibrations,
    claims,
    documents,
    federations,
    ledgers,
    masks,
    planner,
    privacy,
    promises,
    records,
    settings,
)
from torture._run import Section

SECTIONS: dict[str, Section] = {
    section.name: section
    for section in (
        federations.SECTION,
        *ledgers.SECTIONS,
        documents.SECTION,
        settings.SECTION,
        calibrations.SECTION,
        claims.SECTION,
        promises.SECTION,
        byzantine.SECTION,
        masks.SECTION,
        planner.SECTION,
        records.SECTION,
        privacy.SECTION,
    )
}
