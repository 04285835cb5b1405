//! Places as the numbers of devices.

use pyo3::prelude::*;

/// The number of the device of a Place; `None` is the CPU.
pub fn device_number(place: &Bound<'_, PyAny>) -> PyResult<Option<i32>> {
    if place.hasattr("gpu_device_id")? && place.call_method0("is_gpu_place")?.is_truthy()? {
        return place.call_method0("gpu_device_id")?.extract().map(Some);
    }
    Ok(None)
}
