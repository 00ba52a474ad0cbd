"""TODO: controller_manager."""
