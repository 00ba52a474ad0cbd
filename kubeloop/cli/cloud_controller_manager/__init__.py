"""TODO: cloud_controller_manager."""
